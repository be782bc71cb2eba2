/** Requests about passes: the available ones, their result on a model, and saving it. */
import type { Difference } from './lowering';
import { RequestType } from 'vscode-languageclient';

/** The passes for a model, in order of application. */
export interface PassesAnswer {
  passes: { name: string; label: string; detail: string; places: number }[];
  /** The activations of the model, with possible replacements for each (classes of torch.nn). */
  activations: Record<string, string[]>;
}

export const passes = new RequestType<{ uri: string; target: string }, PassesAnswer | { reason: string }, void>('fxlens/passes');

export interface PassParams {
  uri: string;
  target: string;
  passes: string[];
  /** The activation to replace, and its replacement. */
  old?: string;
  new?: string;
  /** A folder to save the changed model in. */
  out?: string;
  /** A file to export the changed model to. */
  onnx?: string;
  /** Whether what FX Lens did not write may be replaced. */
  force?: boolean;
  workDoneToken?: string;
}

export interface PassAnswer {
  target: string;
  passes: string[];
  before: string;
  after: string;
  /** The largest relative difference of the results on the example inputs, or null. */
  error: Difference | null;
  /** Number of nodes before and after. */
  nodes: [number, number];
  /** Nodes that the passes left unchanged, and why. */
  refused: string[];
  notes: string[];
  /** Whether the interpreter of the models has fxlib installed. */
  library: boolean;
  /** A function that makes the changed model; null if its class has gone. */
  construction: string | null;
  /** The number by which `savePass` finds the result in its process; null if that has ended. */
  kept: string | null;
}

/** The result of passes on a model; the source is not changed. */
export const pass = new RequestType<PassParams, PassAnswer | { reason: string }, void>('fxlens/pass');

export interface InsertedAnswer {
  uri: string;
  /** The one that the function follows, from 0. */
  line: number;
}

/** Has the server insert a `construction` below its class, wherever that is by now. */
export const insertPass = new RequestType<{ uri: string; target: string; text: string }, InsertedAnswer | { reason: string }, void>('fxlens/insertPass');

export interface SavePassParams {
  kept: string;
  /** A folder to save the changed model in. */
  out?: string;
  /** A file to export the changed model to. */
  onnx?: string;
  /** Whether what FX Lens did not write may be replaced. */
  force?: boolean;
  workDoneToken?: string;
}

/** Saves or exports the result of an earlier `pass`; `saved` is false if its process has ended. */
export const savePass = new RequestType<SavePassParams, { saved: boolean } | { reason: string }, void>('fxlens/savePass');
