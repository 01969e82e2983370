/** How times, paths and amounts are written. */

/** How long ago, in the shortest form: `now`, `5m`, `3h`, `2d`, `4mo`, `1y`. */
export function ago(time: number, now: number): string {
  const minutes = Math.floor((now - time) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 30) return `${days}d`;
  if (days < 365) return `${Math.floor(days / 30)}mo`;
  return `${Math.floor(days / 365)}y`;
}

/** A duration: `0.4s`, `12s`, `3m 05s`. */
export function duration(ms: number): string {
  if (ms < 9_950) return `${(Math.max(0, ms) / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  return `${Math.floor(seconds / 60)}m ${String(seconds % 60).padStart(2, "0")}s`;
}

/** An amount: `950`, `1.2k`, `34k`, `1.5M`. */
export function amount(n: number): string {
  if (n < 1000) return String(n);
  if (n < 9950) return `${(n / 1000).toFixed(1)}k`;
  if (n < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

export function baseName(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? "/";
}

/** A path with `~` for the home folder. */
export function tilde(path: string, home: string | undefined): string {
  if (!home || home === "/") return path;
  if (path === home) return "~";
  return path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

/** A typed path with the home folder for `~`. */
export function untilde(path: string, home: string | undefined): string {
  if (!home || !/^~(\/|$)/.test(path)) return path;
  return home + path.slice(1);
}

/** A path as seen from the session's folder. */
export function relative(path: string, cwd: string | undefined): string {
  return cwd && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

/** The text with everything spelled out that hides or turns the order of what is read. */
export function visible(text: string): string {
  const steers = /[^\P{Cc}\t\n\r]|[\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
  return text.replace(steers, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
}
