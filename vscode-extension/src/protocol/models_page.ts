/** Messages between the page with the table of models and its host. Both check what they receive. */
import { type Check, either, list, matches, nothing, numeric, oneOf, shape, text, texts } from './check';

export interface ModelVerdict {
  capture: string;
  /** In two or three words. */
  text: string;
  tone: 'good' | 'partly' | 'bad' | 'none';
  /** In a sentence. */
  reason: string;
}

export interface Proposal {
  title: string;
  diff: string;
}

export interface Problem {
  code: string;
  severity: string;
  message: string;
  /** File and line as text. */
  place: string;
  /** In a notebook, from 1. */
  cell: number | null;
  line: number;
  character: number;
  captures: string[];
  notes: string[];
  fixes: Proposal[];
}

/** A class, or a file (without a name) with problems that belong to none of its classes. */
export interface ModelRow {
  name: string;
  place: string;
  uri: string;
  cell: number | null;
  line: number;
  role: string;
  reason: string;
  /** How it is constructed, and the source of that; or empty. */
  construct: string[];
  inputs: string[];
  verdicts: ModelVerdict[];
  problems: Problem[];
  nodes: number;
  parameters: number | null;
  flops: number | null;
  /** SVG, deflated and in base64, if a drawing was made. */
  graph: string;
}

export interface ModelsPart {
  rows: ModelRow[];
  done: number;
  files: number;
}

export type ToModels =
  | { type: 'begin' }
  | ({ type: 'part' } & ModelsPart)
  | { type: 'end'; notes: string[] }
  | { type: 'failed'; reason: string };

export type FromModels =
  | { type: 'ready' }
  | { type: 'again' }
  | { type: 'cancel' }
  | { type: 'open'; uri: string; cell: number | null; line: number; character: number }
  | { type: 'graph'; uri: string; name: string };

const verdict = shape({ capture: text, text, tone: oneOf('good', 'partly', 'bad', 'none'), reason: text });
const problem = shape({
  code: text, severity: text, message: text, place: text, cell: either(numeric, nothing), line: numeric, character: numeric, captures: texts, notes: texts,
  fixes: list(shape({ title: text, diff: text })),
});
const row = shape({
  name: text, place: text, uri: text, cell: either(numeric, nothing), line: numeric, role: text, reason: text, construct: texts, inputs: texts,
  verdicts: list(verdict), problems: list(problem), nodes: numeric, parameters: either(numeric, nothing), flops: either(numeric, nothing), graph: text,
});
const PAGE: Record<ToModels['type'], Check> = {
  begin: shape({}),
  part: shape({ rows: list(row), done: numeric, files: numeric }),
  end: shape({ notes: texts }),
  failed: shape({ reason: text }),
};
const HOST: Record<FromModels['type'], Check> = {
  ready: shape({}),
  again: shape({}),
  cancel: shape({}),
  open: shape({ uri: text, cell: either(numeric, nothing), line: numeric, character: numeric }),
  graph: shape({ uri: text, name: text }),
};

export const isToModels = (value: unknown): value is ToModels => matches(PAGE, value);
export const isFromModels = (value: unknown): value is FromModels => matches(HOST, value);
