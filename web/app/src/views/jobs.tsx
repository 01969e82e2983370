/** The background jobs of a session: what runs, what it printed, and a way to stop it. */
import type { JobOutputResponse, SessionJob } from "@orrery/client";
import { asRemoteError, type RemoteError } from "@orrery/client";
import { type ReactNode, useEffect, useState } from "react";
import { duration } from "../lib/format";
import { useClient, useJobs } from "../lib/hooks";
import { Ticking } from "./agent-card";
import { ErrorLine, IconButton } from "./controls";
import { Popover } from "./popover";

/** How often the output of a running job is asked for while somebody looks at it. */
const LOOK_MS = 1000;

const WORDS: Record<SessionJob["status"], string> = {
  running: "running",
  stopping: "being stopped",
  completed: "done",
  killed: "stopped",
  failed: "failed",
  lost: "lost: the Host was restarted before it ended",
};

export function Jobs({ sessionId }: { sessionId: string }): ReactNode {
  const jobs = useJobs(sessionId);
  if (jobs.length === 0) return null;
  const running = jobs.filter((job) => job.status === "running").length;
  const note = running > 0 ? `${running} running` : String(jobs.length);
  return (
    <Popover icon="terminal" label="Jobs" note={note} busy={running > 0} testId="jobs">
      {() => (
        <ul className="jobs">
          {[...jobs].reverse().map((job) => (
            <Job key={job.id} sessionId={sessionId} job={job} />
          ))}
        </ul>
      )}
    </Popover>
  );
}

function Job({ sessionId, job }: { sessionId: string; job: SessionJob }): ReactNode {
  const { call } = useClient();
  const [open, setOpen] = useState(false);
  const [error, setError] = useState<RemoteError | null>(null);
  const stop = () => {
    setError(null);
    call("job/kill", { sessionId, jobId: job.id }).catch((thrown) =>
      setError(asRemoteError(thrown)),
    );
  };
  const took = job.finishedAt === undefined ? null : duration(job.finishedAt - job.startedAt);
  return (
    <li className="job" data-testid="job" data-status={job.status}>
      <span className="agent-row">
        <button
          type="button"
          className="link-button agent-name"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {job.label}
        </button>
        <span className="agent-facts">
          {job.status === "running" ? <Ticking since={job.startedAt} /> : took}
          <span className={job.status === "failed" ? "badge red" : ""}>{WORDS[job.status]}</span>
        </span>
        {job.status === "running" && (
          <IconButton icon="close" size={14} label={`Stop ${job.label}`} onClick={stop} />
        )}
      </span>
      {job.detail && <p className="side-note">{job.detail}</p>}
      {error && <ErrorLine error={error} onDismiss={() => setError(null)} />}
      {open && <Output sessionId={sessionId} job={job} />}
    </li>
  );
}

function Output({ sessionId, job }: { sessionId: string; job: SessionJob }): ReactNode {
  const { call } = useClient();
  const [text, setText] = useState("");
  const [error, setError] = useState<RemoteError | null>(null);
  const { id, status } = job;
  useEffect(() => {
    let current = true;
    let from = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const piece: JobOutputResponse = await call("job/output", { sessionId, jobId: id, from });
        if (!current) return;
        const start = from === 0;
        from = piece.next;
        setText((old) => (start ? "" : old) + piece.text);
        setError(null);
        if (!piece.done) timer = setTimeout(look, piece.text === "" ? LOOK_MS : 0);
      } catch (thrown) {
        if (current) setError(asRemoteError(thrown));
      }
    };
    if (status !== "lost") void look();
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [call, sessionId, id, status]);
  if (status === "lost") {
    return <p className="side-note">Its output went with the process that ran it.</p>;
  }
  if (error) return <ErrorLine error={error} />;
  return <pre className="job-output">{text === "" ? "(nothing yet)" : text}</pre>;
}
