/** Queues, jobs, interactions and projections of every session, kept up by `session/control`. */
import type { Connection } from "./connection";
import type { RemoteError } from "./errors";
import type { Interaction, Persistence, SessionJob, SessionQueue } from "./generated/contract";
import { Emitter } from "./observable";
import { ProjectionStore } from "./projection-store";
import { SnapshotStream } from "./snapshot-stream";

const NO_JOBS: readonly SessionJob[] = [];
const NO_INTERACTIONS: readonly Interaction[] = [];

export class Control {
  /** Something of a session changed; an empty string means all of them. */
  readonly changed = new Emitter<string>();
  readonly queueChanged = new Emitter<string>();
  error: RemoteError | null = null;
  #queues = new Map<string, SessionQueue>();
  #jobs = new Map<string, readonly SessionJob[]>();
  #interactions = new Map<string, readonly Interaction[]>();
  #byRoot = new Map<string, readonly Interaction[]>();
  #persistence = new Map<string, Persistence>();
  #projections = new Map<string, ProjectionStore>();
  #stream: SnapshotStream<"session/control">;

  constructor(connection: Connection) {
    this.#stream = new SnapshotStream(
      connection,
      "session/control",
      {},
      {
        baseline: ({ value }) => {
          const before = new Set(this.#queues.keys());
          this.#queues = new Map(Object.entries(value.queues));
          this.#jobs = new Map(Object.entries(value.jobs));
          this.#interactions = new Map(Object.entries(value.interactions));
          this.#persistence = new Map(Object.entries(value.persistence ?? {}));
          this.#groupByRoot();
          for (const [id, values] of Object.entries(value.projections)) {
            this.projections(id).controlBaseline(values);
          }
          for (const id of new Set([...before, ...this.#queues.keys()])) this.queueChanged.emit(id);
          this.changed.emit("");
        },
        update: (item) => {
          if (item.type === "queue") {
            this.#queues.set(item.sessionId, { parked: item.parked, items: item.items });
            this.queueChanged.emit(item.sessionId);
          } else if (item.type === "jobs") {
            this.#jobs.set(item.sessionId, item.jobs);
          } else if (item.type === "interaction") {
            this.#interactions.set(item.sessionId, item.interactions);
            this.#groupByRoot();
            this.changed.emit("");
            return;
          } else if (item.type === "projection") {
            this.projections(item.sessionId).push(item.key, item.value, item.seq);
          } else if (item.type === "persistence") {
            this.#persistence.set(item.sessionId, item.persistence);
          } else {
            // A kind of a newer Host.
            return;
          }
          this.changed.emit(item.sessionId);
        },
        failed: (error) => {
          this.error = error;
          this.changed.emit("");
        },
      },
    );
  }

  start(): void {
    this.#stream.start();
  }

  dispose(): void {
    this.#stream.dispose();
  }

  queue(sessionId: string): SessionQueue | undefined {
    return this.#queues.get(sessionId);
  }

  jobs(sessionId: string): readonly SessionJob[] {
    return this.#jobs.get(sessionId) ?? NO_JOBS;
  }

  /** What the session and the subagents below it ask; the array keeps its identity. */
  interactions(rootSessionId: string): readonly Interaction[] {
    return this.#byRoot.get(rootSessionId) ?? NO_INTERACTIONS;
  }

  /** How far a live session is saved; undefined for one that is not live. */
  persistence(sessionId: string): Persistence | undefined {
    return this.#persistence.get(sessionId);
  }

  projections(sessionId: string): ProjectionStore {
    let store = this.#projections.get(sessionId);
    if (!store) {
      store = new ProjectionStore();
      this.#projections.set(sessionId, store);
    }
    return store;
  }

  #groupByRoot(): void {
    const groups = new Map<string, Interaction[]>();
    for (const list of this.#interactions.values()) {
      for (const interaction of list) {
        const group = groups.get(interaction.rootSessionId) ?? [];
        group.push(interaction);
        groups.set(interaction.rootSessionId, group);
      }
    }
    for (const [root, group] of groups) {
      group.sort((a, b) => a.createdAt - b.createdAt);
      const before = this.#byRoot.get(root);
      if (before && JSON.stringify(before) === JSON.stringify(group))
        groups.set(root, before as Interaction[]);
    }
    this.#byRoot = groups;
  }
}
