/** Texts made from a target: the generated forward, and others. */
import { RequestType } from 'vscode-languageclient';
import type { Place } from './graph';
import type { TraceRecord } from './record';

export type View = 'code' | 'table' | 'graph';

export interface CodeParams {
  uri: string;
  target: string;
  view: View;
  /** Do not wait for a running trace: a notification reports newer results. */
  now?: boolean;
}

export interface CodeAnswer {
  text: string;
  /** Node name to its first and last line, from 0. */
  lines: Record<string, [number, number]>;
  places: Record<string, Place[]>;
  version: number | null;
}

export const code = new RequestType<CodeParams, CodeAnswer | { reason: string }, void>('fxlens/code');

export interface RecordAnswer {
  /** Version of the text that was traced. */
  version: number | null;
  record: TraceRecord;
  /** The class at the user's cursor. */
  cursor: string | null;
}

export const record = new RequestType<{ uri: string }, RecordAnswer | null, void>('fxlens/record');
