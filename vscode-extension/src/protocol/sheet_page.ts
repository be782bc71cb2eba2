/** Messages between the page of results and its host. Both check what they receive. */
import { type Check, absent, either, flag, list, matches, nothing, numeric, oneOf, pair, shape, text, texts } from './check';

/** The whole page: facts, tables, a plot and a log, independent of engines. */
export interface Sheet {
  title: string;
  facts: [string, string][];
  plot: string | null;
  tables: Table[];
  log: string;
  /** The choices on the page; changing one runs the job again. */
  choices?: Choice[];
  /** Further actions on the page: names and labels. A choice without a value. */
  actions?: [string, string][];
}

export interface Choice {
  name: string;
  label: string;
  value: string;
  /** Values and their labels. */
  options: [string, string][];
}

export interface Table {
  title: string;
  columns: { label: string; numeric: boolean }[];
  rows: Row[];
}

export interface Row {
  cells: string[];
  /** The row's nodes: selecting it goes to their source. */
  nodes: string[];
  tone: Tone;
  /** A sentence below the cells, such as why a node stays in PyTorch. */
  note: string | null;
}

export type Tone = 'engine' | 'torch' | 'plain';

export type ToSheet =
  | { type: 'running'; title: string; text: string; percent: number }
  | { type: 'sheet'; sheet: Sheet }
  | { type: 'failed'; title: string; reason: string }
  | { type: 'select'; names: string[] };

export type FromSheet =
  | { type: 'ready' }
  | { type: 'cancel' }
  | { type: 'again' }
  | { type: 'choose'; name: string; value: string }
  | { type: 'reveal'; names: string[]; focus: boolean };

const row = shape({ cells: texts, nodes: texts, tone: oneOf('engine', 'torch', 'plain'), note: either(text, nothing) });
const table = shape({ title: text, columns: list(shape({ label: text, numeric: flag })), rows: list(row) });
const choice = shape({ name: text, label: text, value: text, options: list(pair) });
const SHEET: Record<ToSheet['type'], Check> = {
  running: shape({ title: text, text, percent: numeric }),
  sheet: shape({ sheet: shape({ title: text, facts: list(pair), plot: either(text, nothing), tables: list(table), log: text, choices: either(absent, list(choice)), actions: either(absent, list(pair)) }) }),
  failed: shape({ title: text, reason: text }),
  select: shape({ names: texts }),
};
const HOST: Record<FromSheet['type'], Check> = {
  ready: shape({}),
  cancel: shape({}),
  again: shape({}),
  choose: shape({ name: text, value: text }),
  reveal: shape({ names: texts, focus: flag }),
};

export const isToSheet = (value: unknown): value is ToSheet => matches(SHEET, value);
export const isFromSheet = (value: unknown): value is FromSheet => matches(HOST, value);
