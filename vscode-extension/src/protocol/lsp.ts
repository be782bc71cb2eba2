/** What FX Lens adds to the Language Server Protocol. The server's features/ say the same in Python. */
import { NotificationType, RequestType } from 'vscode-languageclient';

/** Parameters of what needs none: the server's protocol layer refuses a request without. */
export type None = Record<string, never>;

export interface InitializationOptions {
  /** False: the server runs nothing of the workspace, neither its models nor an interpreter found in it. */
  trusted: boolean;
}

export type ServerState = 'starting' | 'ready' | 'busy' | 'untrusted' | 'error';

export interface StatusParams {
  state: ServerState;
  /** The interpreter that runs the models, and its torch. */
  python: string | null;
  torch: string | null;
  message: string | null;
  /** The interpreter that runs the models, or should, and why it is that one. */
  interpreter?: string | null;
  /** How many classes of the open files are judged, as a sentence. */
  coverage?: string | null;
  /** What each capture does with the class that the cursor is in: in a few words, and with the sizes that are fixed. */
  verdicts?: { model: string; short: string; full: string } | null;
  /** How many classes of a file were not judged, by its URI; without the files in which all were. */
  unjudged?: Record<string, number>;
}

export interface DocumentParams {
  uri: string;
}

/** Server to client: what the status item shows. */
export const status = new NotificationType<StatusParams>('fxlens/status');
/** The same on request: a notification may have come before the client was ready. */
export const askStatus = new RequestType<None, StatusParams, void>('fxlens/status');
/** Client to server: the workspace is trusted from now on. */
export const trusted = new NotificationType<None>('fxlens/trusted');
/** Client to server: the line (from 0) of a document that the cursor rests on. */
export const cursor = new NotificationType<DocumentParams & { line: number }>('fxlens/cursor');
/** Trace this document now, even after repeated crashes on the same text. */
export const trace = new RequestType<DocumentParams, void, void>('fxlens/trace');
/** Lines to paste into a report. */
export const debugInfo = new RequestType<None, { text: string }, void>('fxlens/debugInfo');
