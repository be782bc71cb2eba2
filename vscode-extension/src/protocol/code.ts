/** Texts that are made of a target: the generated forward, and others. */
import { RequestType } from 'vscode-languageclient';
import type { Place } from './record';

export type View = 'code' | 'table';

export interface CodeParams {
  uri: string;
  target: string;
  view: View;
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
  version: number | null;
  record: {
    targets: {
      name: string;
      line: number;
      construct: { text: string; source: string; line: number | null } | null;
      inputs: { text: string; source: string; line: number | null } | null;
    }[];
  };
}

export const record = new RequestType<{ uri: string }, RecordAnswer | null, void>('fxlens/record');

export interface PassParams {
  uri: string;
  target: string;
  name: string;
  /** A folder to save the changed model in, or ''. */
  out: string;
}

export interface PassAnswer {
  target: string;
  before: string;
  after: string;
  /** The largest relative difference of the results on the example inputs, or null. */
  error: number | null;
  /** Number of nodes before and after. */
  nodes: [number, number];
  /** What the pass left as it was, and why. */
  refused: string[];
}

/** What a pass makes of a model; nothing of the source changes. */
export const pass = new RequestType<PassParams, PassAnswer | { reason: string }, void>('fxlens/pass');
