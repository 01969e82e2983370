/** The next model: which providers offer what, how much it should think, what failed to answer. */
import type { ModelCatalog, ModelChoice, ModelInfo, OrreryClient } from "@orrery/client";
import { type ReactNode, useCallback, useEffect, useState } from "react";
import { type Loaded, useClient, useLoaded } from "../lib/hooks";
import { fields, text } from "../transcript/content";
import { useDismiss } from "./controls";
import { Icon } from "./icons";

const loadCatalog = (client: OrreryClient): Promise<ModelCatalog> =>
  client.call("session/modelCatalog", {});

export function useModelCatalog(): Loaded<ModelCatalog> {
  const { connection } = useClient();
  const loaded = useLoaded(loadCatalog);
  const { reload } = loaded;
  useEffect(
    () =>
      connection.news.subscribe(({ event }) => {
        if (event === "llm/changed" || event === "settings/changed") reload();
      }),
    [connection, reload],
  );
  return loaded;
}

/** What the next request of a session uses, from the freshest source that tells. */
export function nextModel(
  projections: Readonly<Record<string, unknown>>,
  logged: ModelChoice | undefined,
  catalog: ModelCatalog | null,
): ModelChoice | null {
  const next = fields(fields(projections.modelSelection).next);
  const provider = text(next.provider);
  const model = text(next.model);
  if (provider && model) {
    const reasoningEffort = text(next.reasoningEffort);
    return { provider, model, ...(reasoningEffort ? { reasoningEffort } : {}) };
  }
  return logged ?? catalog?.default ?? null;
}

function find(catalog: ModelCatalog | null, choice: ModelChoice | null): ModelInfo | undefined {
  const group = catalog?.groups.find((one) => one.id === choice?.provider);
  return group?.models.find((one) => one.id === choice?.model);
}

interface ModelPickerProps {
  loaded: Loaded<ModelCatalog>;
  choice: ModelChoice | null;
  onChoose: (choice: ModelChoice) => void;
}

export function ModelPicker({ loaded, choice, onChoose }: ModelPickerProps): ReactNode {
  const [open, setOpen] = useState(false);
  const close = useCallback(() => setOpen(false), []);
  const box = useDismiss(open, close);
  const catalog = loaded.value;
  const info = find(catalog, choice);
  const name = info?.name ?? choice?.model ?? (catalog ? "No model" : "Model");
  return (
    <div className="picker" ref={box}>
      <button
        type="button"
        className="chip"
        data-testid="model-picker"
        aria-haspopup="dialog"
        aria-expanded={open}
        aria-label={`Model: ${name}`}
        onClick={() => {
          if (!open) loaded.reload();
          setOpen(!open);
        }}
      >
        <Icon name="spark" size={14} />
        <span className="chip-text">{name}</span>
        {choice?.reasoningEffort && <span className="chip-extra">{choice.reasoningEffort}</span>}
        <Icon name="down" size={12} />
      </button>
      {open && (
        <div className="popover" role="dialog" aria-label="Choose a model">
          {catalog?.groups.map((group) => (
            <section key={group.id} aria-label={group.name}>
              <h2>{group.name}</h2>
              {group.models.map((model) => (
                <ModelOption
                  key={model.id}
                  provider={group.id}
                  model={model}
                  choice={choice}
                  onChoose={(next, done) => {
                    onChoose(next);
                    if (done) close();
                  }}
                />
              ))}
            </section>
          ))}
          {catalog?.failures.map((failure) => (
            <p key={failure.id} className="picker-failure">
              <Icon name="alert" size={13} /> {failure.name}: {failure.message}
            </p>
          ))}
          {catalog && catalog.groups.length === 0 && (
            <p className="side-note">No models. Add a provider to the Host's config.toml.</p>
          )}
          {loaded.error && (
            <p className="picker-failure">
              {loaded.error.message} <code>{loaded.error.code}</code>
            </p>
          )}
        </div>
      )}
    </div>
  );
}

interface OptionProps {
  provider: string;
  model: ModelInfo;
  choice: ModelChoice | null;
  onChoose: (choice: ModelChoice, done: boolean) => void;
}

function ModelOption({ provider, model, choice, onChoose }: OptionProps): ReactNode {
  const selected = choice?.provider === provider && choice.model === model.id;
  const effort = (selected && choice.reasoningEffort) || model.reasoning?.defaultEffort;
  return (
    <div className={`model-option ${selected ? "selected" : ""}`}>
      <button
        type="button"
        aria-pressed={selected}
        data-testid="model-option"
        onClick={() => onChoose({ provider, model: model.id }, true)}
      >
        <span className="model-name">{model.name}</span>
        {model.description && <span className="model-detail">{model.description}</span>}
        {selected && <Icon name="check" size={14} />}
      </button>
      {selected && model.reasoning && model.reasoning.efforts.length > 1 && (
        <fieldset className="efforts">
          <legend>Thinking</legend>
          {model.reasoning.efforts.map((one) => (
            <button
              key={one.id}
              type="button"
              aria-pressed={one.id === effort}
              title={one.description}
              onClick={() =>
                onChoose({ provider, model: model.id, reasoningEffort: one.id }, false)
              }
            >
              {one.name}
            </button>
          ))}
        </fieldset>
      )}
    </div>
  );
}
