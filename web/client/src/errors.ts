import type { ApiError } from "./generated/contract";

/**
 * Where a failure comes from: `carrier` (the line broke), `protocol` (the Host said something that
 * the contract does not allow), `business` (the Host refused).
 */
export type ErrorLayer = "carrier" | "protocol" | "business";

/** A failure of a call or a stream. Shown by code and message. */
export class RemoteError extends Error {
  readonly layer: ErrorLayer;
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly retryable: boolean;

  constructor(layer: ErrorLayer, error: ApiError) {
    super(error.message);
    this.name = "RemoteError";
    this.layer = layer;
    this.code = error.code;
    this.details = error.details;
    this.retryable = error.retryable;
  }
}

/** The line broke. */
export function carrierError(message: string, code = "client/disconnected"): RemoteError {
  return new RemoteError("carrier", { code, message, details: {}, retryable: true });
}

/** The Host said something that the contract does not allow. */
export function protocolError(message: string): RemoteError {
  return new RemoteError("protocol", {
    code: "client/protocol",
    message,
    details: {},
    retryable: false,
  });
}

/** Reads a Host's error value, whatever it looks like. */
export function businessError(value: unknown): RemoteError {
  const error = (typeof value === "object" && value !== null ? value : {}) as Partial<ApiError>;
  return new RemoteError("business", {
    code: typeof error.code === "string" ? error.code : "gateway/internal",
    message: typeof error.message === "string" ? error.message : "the Host failed",
    details: typeof error.details === "object" && error.details !== null ? error.details : {},
    retryable: error.retryable === true,
  });
}

/** Any thrown thing as a RemoteError. */
export function asRemoteError(thrown: unknown): RemoteError {
  if (thrown instanceof RemoteError) return thrown;
  return carrierError(thrown instanceof Error ? thrown.message : String(thrown), "client/failed");
}
