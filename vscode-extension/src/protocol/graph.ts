/** The request for the graph of a target, drawn, with the places of its nodes in the source. */
import type { Range } from 'vscode-languageclient';
import { NotificationType, RequestType } from 'vscode-languageclient';
import type { GraphView, Options } from './graph_page';

export interface Place {
  uri: string;
  range: Range;
}

export interface GraphParams extends Options {
  uri: string;
  /** Do not wait for a running trace: a notification reports newer results. */
  now?: boolean;
}

export interface GraphAnswer {
  view: GraphView;
  /** Identifies the trace that made it: two of the same text differ, since other files may have changed. */
  trace: number | null;
  /** Version of the text that was traced. */
  version: number | null;
  /** Node name to its places: its own expression first, then the calls that lead to it, innermost first. */
  places: Record<string, Place[]>;
}

/** The graph of one target of a document; a string says why there is none. */
export const graph = new RequestType<GraphParams, GraphAnswer | { reason: string }, void>('fxlens/graph');
/** Server to client: a document has a new record. */
export const recordChanged = new NotificationType<{ uri: string; version: number | null }>('fxlens/recordChanged');
