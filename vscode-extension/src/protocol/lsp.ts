/** What FX Lens adds to the Language Server Protocol. The server's features/ describe the same in Python. */
import { NotificationType, RequestType } from 'vscode-languageclient';

/** Parameters for requests without any, since the server's protocol layer rejects a request without parameters. */
export type None = Record<string, never>;

export interface InitializationOptions {
  /** False: the server runs nothing from the workspace, neither its models nor an interpreter in it. */
  trusted: boolean;
}

export type ServerState = 'starting' | 'ready' | 'busy' | 'untrusted' | 'error';

export interface StatusParams {
  state: ServerState;
  /** The interpreter that runs the models, and its torch. */
  python: string | null;
  torch: string | null;
  message: string | null;
  /** The interpreter that runs the models, or should, and the reason for it. */
  interpreter?: string | null;
  /** The number of judged classes in the open files, as a sentence. */
  coverage?: string | null;
  /** Each capture's verdict on the class at the cursor: short, and with fixed sizes. */
  verdicts?: { model: string; short: string; full: string } | null;
  /** The number of unjudged classes of a file, by its URI; without files in which all were judged. */
  unjudged?: Record<string, number>;
}

export interface DocumentParams {
  uri: string;
}

/** Server to client: the content of the status item. */
export const status = new NotificationType<StatusParams>('fxlens/status');
/** The same on request, since a notification may have arrived before the client was ready. */
export const askStatus = new RequestType<None, StatusParams, void>('fxlens/status');
/** Client to server: the workspace is trusted from now on. */
export const trusted = new NotificationType<None>('fxlens/trusted');
/** Client to server: the line (from 0) of a document that the cursor rests on. */
export const cursor = new NotificationType<DocumentParams & { line: number }>('fxlens/cursor');
/** Trace this document now, even after repeated crashes on the same text. */
export const trace = new RequestType<DocumentParams, void, void>('fxlens/trace');
/** Lines to paste into a bug report. */
export const debugInfo = new RequestType<None, { text: string }, void>('fxlens/debugInfo');
