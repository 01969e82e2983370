/** A client of an Orrery Host, for browsers and programs. Start reading at `client`. */
export * from "./carrier";
export * from "./catalogue";
export * from "./client";
export * from "./connection";
export * from "./control";
export * from "./errors";
export * from "./event-stream";
export type * from "./generated/contract";
export { IMPLEMENTED, PROTOCOL } from "./generated/contract";
export * from "./journal";
export * from "./observable";
export * from "./projection-store";
export * from "./queue-mirror";
export * from "./records";
export * from "./remote-stream";
export * from "./session";
export * from "./snapshot-stream";
export * from "./submissions";
