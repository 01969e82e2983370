/**
 * State that lives in a process: each generation starts from one baseline, then changes.
 * While the line is broken the old state stays; the next baseline replaces it at once.
 */
import type { StreamName } from "./carrier";
import type { Connection } from "./connection";
import { protocolError, type RemoteError } from "./errors";
import type { StreamOperations } from "./generated/contract";
import { RemoteStream } from "./remote-stream";

type Item<N extends StreamName> = StreamOperations[N]["response"];
/** Names of streams whose items begin with a baseline. */
export type SnapshotName = "session/control" | "session/catalog";

export interface SnapshotHandler<N extends SnapshotName> {
  baseline(item: Extract<Item<N>, { type: "baseline" }>): void;
  update(item: Exclude<Item<N>, { type: "baseline" }>): void;
  failed(error: RemoteError): void;
}

/** Keeps the order "one baseline, then updates". */
export class BaselineGate {
  #open = false;

  begin(): void {
    this.#open = false;
  }

  /** Tells which of the two an item is; throws when it comes out of turn. */
  check(type: string): "baseline" | "update" {
    if (type === "baseline") {
      if (this.#open) throw protocolError("the stream sent a second baseline");
      this.#open = true;
      return "baseline";
    }
    if (!this.#open) throw protocolError("the stream sent an update before its baseline");
    return "update";
  }
}

export class SnapshotStream<N extends SnapshotName> {
  #stream: RemoteStream<N>;

  constructor(
    connection: Connection,
    endpoint: N,
    request: StreamOperations[N]["request"],
    handler: SnapshotHandler<N>,
  ) {
    const gate = new BaselineGate();
    this.#stream = new RemoteStream(connection, endpoint, {
      request: () => {
        gate.begin();
        return request;
      },
      item: (item) => {
        if (gate.check(item.type) === "baseline") {
          handler.baseline(item as Extract<Item<N>, { type: "baseline" }>);
          this.#stream.accept();
        } else {
          handler.update(item as Exclude<Item<N>, { type: "baseline" }>);
        }
      },
      failed: (error) => handler.failed(error),
    });
  }

  start(): void {
    this.#stream.start();
  }

  restart(): void {
    this.#stream.restart();
  }

  dispose(): void {
    this.#stream.dispose();
  }
}
