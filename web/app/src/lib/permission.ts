/** Words for the permission presets. */
import { fields, list, text } from "../transcript/content";

export interface Permission {
  id: string;
  label: string;
  detail: string;
}

const PRESETS: Record<string, Permission> = {
  "read-only": {
    id: "read-only",
    label: "Read only",
    detail: "Nothing is written; commands ask first.",
  },
  "workspace-write": {
    id: "workspace-write",
    label: "Workspace write",
    detail: "Files inside the folder may be changed; commands ask first.",
  },
  "danger-full-access": {
    id: "danger-full-access",
    label: "Full access",
    detail: "Nothing asks first. Files anywhere may be changed.",
  },
};

/** The preset in force, from the projections or else the log; the default when neither tells. */
export function permissionOf(
  projections: Readonly<Record<string, unknown>>,
  logged: string | undefined,
): Permission {
  const projected = projections.permissions;
  const id = text(fields(projected).currentValue) ?? logged ?? "workspace-write";
  const own = list(fields(projected).options)
    .map(fields)
    .find((option) => option.value === id);
  const words = { id, label: text(own?.name) ?? id, detail: text(own?.description) ?? "" };
  return PRESETS[id] ?? words;
}
