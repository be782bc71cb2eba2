/** Texts that are made of a target: the generated forward, and others. */
import { RequestType } from 'vscode-languageclient';
import type { Place } from './graph';

export type View = 'code' | 'table' | 'graph';

export interface CodeParams {
  uri: string;
  target: string;
  view: View;
  /** Do not wait for a trace under way: a notification comes when there is something newer. */
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

/** What can be done to a model, in the order in which several are applied. */
export interface PassesAnswer {
  passes: { name: string; label: string; detail: string; places: number }[];
  /** The activations of the model, with what each could be swapped for (classes of torch.nn). */
  activations: Record<string, string[]>;
}

export const passes = new RequestType<{ uri: string; target: string }, PassesAnswer | { reason: string }, void>('fxlens/passes');

export interface PassParams {
  uri: string;
  target: string;
  passes: string[];
  /** The activation to swap, and for what. */
  old?: string;
  new?: string;
  /** A folder to save the changed model in. */
  out?: string;
  /** A file to export the changed model to. */
  onnx?: string;
}

export interface PassAnswer {
  target: string;
  passes: string[];
  before: string;
  after: string;
  /** The largest relative difference of the results on the example inputs, or null. */
  error: number | null;
  /** Number of nodes before and after. */
  nodes: [number, number];
  /** What the passes left as it was, and why. */
  refused: string[];
  notes: string[];
  /** Whether the interpreter of the models has fxlib installed. */
  library: boolean;
  /** A function that makes the changed model, to be inserted before a line (from 0); null when the text has changed since. */
  construction: { line: number; text: string } | null;
}

/** What passes make of a model; nothing of the source changes. */
export const pass = new RequestType<PassParams, PassAnswer | { reason: string }, void>('fxlens/pass');
