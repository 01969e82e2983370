/** What waits for a person, above the composer: approvals and questions. */
import type { Interaction, InteractionOutcome, Question, QuestionAnswer } from "@orrery/client";
import { asRemoteError, type RemoteError } from "@orrery/client";
import { type ReactNode, useState } from "react";
import { visible } from "../lib/format";
import { useClient } from "../lib/hooks";
import { parseArgs, text } from "../transcript/content";
import type { ToolNode } from "../transcript/model";
import { ErrorLine } from "./controls";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { CallBody, diffOf } from "./tool-body";

interface InteractionsProps {
  interactions: readonly Interaction[];
  /** The call that an approval is about, where the window shows it. */
  callOf: (callId: string | undefined) => ToolNode | undefined;
}

export function Interactions({ interactions, callOf }: InteractionsProps): ReactNode {
  const first = interactions.find((one) => one.state === "pending");
  const expired = interactions.filter((one) => one.state === "expired");
  const waiting = interactions.filter((one) => one.state === "pending").length;
  if (!first && expired.length === 0) return null;
  return (
    <div className="interactions">
      {expired.length > 0 && !first && (
        <p className="expired">
          <Icon name="info" size={14} />A request expired when the Host restarted. Say “continue” to
          let the agent ask again.
        </p>
      )}
      {first && <Pending key={first.interactionId} interaction={first} callOf={callOf} />}
      {waiting > 1 && <p className="side-note">{waiting - 1} more waiting</p>}
    </div>
  );
}

interface PendingProps {
  interaction: Interaction;
  callOf: InteractionsProps["callOf"];
}

function Pending({ interaction, callOf }: PendingProps): ReactNode {
  const { call } = useClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<RemoteError | null>(null);
  const answer = async (outcome: InteractionOutcome) => {
    setBusy(true);
    setError(null);
    const { sessionId, interactionId } = interaction;
    try {
      await call("interaction/answer", { sessionId, interactionId, outcome });
    } catch (thrown) {
      setError(asRemoteError(thrown));
      setBusy(false);
    }
  };
  const { request } = interaction;
  return (
    <section className="interaction" aria-label="The agent waits for you" data-testid="interaction">
      {"toolName" in request ? (
        <Approval
          toolName={request.toolName}
          reason={request.reason}
          node={callOf(request.callId)}
          busy={busy}
          onAnswer={answer}
        />
      ) : (
        <Questions questions={request.questions} busy={busy} onAnswer={answer} />
      )}
      {interaction.sessionId !== interaction.rootSessionId && (
        <p className="side-note">Asked by a subagent.</p>
      )}
      {error && <ErrorLine error={error} onDismiss={() => setError(null)} />}
    </section>
  );
}

interface ApprovalProps {
  toolName: string;
  reason: string | undefined;
  node: ToolNode | undefined;
  busy: boolean;
  onAnswer: (outcome: InteractionOutcome) => Promise<void>;
}

function Approval({ toolName, reason, node, busy, onAnswer }: ApprovalProps): ReactNode {
  const [refusing, setRefusing] = useState(false);
  const [message, setMessage] = useState("");
  const args = node ? parseArgs(node.args) : {};
  const path = text(args.path) ?? text(args.file_path);
  const refuse = () =>
    onAnswer({
      kind: "approval",
      value: "rejected",
      ...(message.trim() ? { message: message.trim() } : {}),
    });
  return (
    <>
      <header className="interaction-head">
        <Icon name="lock" size={16} />
        <strong>Allow {toolName === "bash" ? "this command" : `“${toolName}”`}?</strong>
        {reason && !(node && toolName === "bash") && <span>{visible(reason)}</span>}
      </header>
      {node && (
        <div className="interaction-call">
          {path && <p className="interaction-path">{visible(path)}</p>}
          <CallBody node={node} args={args} diff={diffOf(node, args)} />
        </div>
      )}
      {refusing && (
        <input
          className="text-input"
          value={message}
          placeholder="What should it do instead? (optional)"
          aria-label="Message with the refusal"
          data-testid="approval-message"
          // biome-ignore lint/a11y/noAutofocus: a person has just asked to type here
          autoFocus
          onChange={(event) => setMessage(event.target.value)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === "Enter") void refuse();
            if (event.key === "Escape") setRefusing(false);
          }}
        />
      )}
      <div className="interaction-actions">
        {refusing ? (
          <button type="button" className="link-button" onClick={() => setRefusing(false)}>
            No message
          </button>
        ) : (
          <button
            type="button"
            className="link-button"
            onClick={() => setRefusing(true)}
            data-testid="approval-add-message"
          >
            Refuse with a message…
          </button>
        )}
        <button
          type="button"
          className="button"
          disabled={busy}
          data-testid="approval-refuse"
          onClick={() => void refuse()}
        >
          Refuse
        </button>
        <button
          type="button"
          className="button primary"
          disabled={busy}
          data-testid="approval-allow"
          onClick={() => void onAnswer({ kind: "approval", value: "allowed-once" })}
        >
          Allow once
        </button>
      </div>
    </>
  );
}

interface QuestionsProps {
  questions: readonly Question[];
  busy: boolean;
  onAnswer: (outcome: InteractionOutcome) => Promise<void>;
}

function Questions({ questions, busy, onAnswer }: QuestionsProps): ReactNode {
  const [answers, setAnswers] = useState<Record<string, QuestionAnswer>>({});
  const answerOf = (id: string): QuestionAnswer => answers[id] ?? { id, selected: [] };
  const put = (answer: QuestionAnswer) => setAnswers({ ...answers, [answer.id]: answer });
  const complete = questions.every((question) => {
    const { selected, custom } = answerOf(question.id);
    return selected.length > 0 || (custom?.trim() ?? "") !== "";
  });
  return (
    <>
      {questions.map((question) => (
        <QuestionForm
          key={question.id}
          question={question}
          answer={answerOf(question.id)}
          onChange={put}
        />
      ))}
      <div className="interaction-actions">
        <button
          type="button"
          className="button"
          disabled={busy}
          onClick={() => void onAnswer({ kind: "cancel" })}
        >
          Dismiss
        </button>
        <button
          type="button"
          className="button primary"
          disabled={busy || !complete}
          data-testid="question-answer"
          onClick={() =>
            void onAnswer({ kind: "answers", answers: questions.map((q) => answerOf(q.id)) })
          }
        >
          Answer
        </button>
      </div>
    </>
  );
}

interface QuestionFormProps {
  question: Question;
  answer: QuestionAnswer;
  onChange: (answer: QuestionAnswer) => void;
}

function QuestionForm({ question, answer, onChange }: QuestionFormProps): ReactNode {
  const { id, multiSelect, options = [] } = question;
  const toggle = (label: string) => {
    const has = answer.selected.includes(label);
    if (!multiSelect) {
      onChange({ id, selected: has ? [] : [label] });
      return;
    }
    const selected = has
      ? answer.selected.filter((one) => one !== label)
      : [...answer.selected, label];
    onChange({ ...answer, selected });
  };
  const custom = (value: string) => {
    const selected = multiSelect ? answer.selected : [];
    onChange({ id, selected, ...(value.trim() ? { custom: value } : {}) });
  };
  return (
    <fieldset className="question">
      <legend>
        {question.header && <span className="badge">{question.header}</span>} {question.question}
      </legend>
      {question.detail && <Markdown text={question.detail} />}
      {options.map((option) => (
        <label key={option.label} className="question-option">
          <input
            type={multiSelect ? "checkbox" : "radio"}
            name={id}
            checked={answer.selected.includes(option.label)}
            onChange={() => toggle(option.label)}
          />
          <span>
            {option.label}
            {option.description && <small>{option.description}</small>}
          </span>
        </label>
      ))}
      <input
        className="text-input"
        value={answer.custom ?? ""}
        placeholder={options.length > 0 ? "Something else…" : "Your answer"}
        aria-label="Answer in your own words"
        onChange={(event) => custom(event.target.value)}
      />
    </fieldset>
  );
}
