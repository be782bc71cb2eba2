/**
 * Messages between the graph's page and its host. Both check what they receive: the page is a web page, and what it
 * shows comes from the user's code.
 */

import { type Check, absent, either, flag, list, matches, nothing, numeric, oneOf, pair, record, shape, text, texts } from './check';

export interface NodeInfo {
  name: string;
  op: string;
  target: string;
  args: string;
  inputs: string[];
  users: string[];
  module: string;
  type: string;
  /** `f32[1, 64, 56, 56]`, or ''. */
  value: string;
  params: number;
  flops: number | null;
  /** Bytes read and written; null if unknown. */
  bytes: number | null;
  /** The time predicted from a device's data sheet, if a device is set. */
  seconds: number | null;
  /** Why it stays in PyTorch when the model is lowered, if known. */
  lowering: string | null;
  /** Facts shown for the selected node: label and text. */
  facts: [string, string][];
}

/** The finite values of a node on the example inputs, and the number of non-finite ones. */
export interface ValueRange {
  low: number | null;
  high: number | null;
  mean: number | null;
  count: number;
  nans: number;
  infinities: number;
}

export interface Group {
  title: string;
  open: boolean;
  nodes: number;
}

export interface GraphView {
  file: string;
  target: string;
  targets: string[];
  dot: string;
  expanded: string[];
  /** Drawn box to its nodes. */
  elements: Record<string, string[]>;
  groups: Record<string, Group>;
  nodes: NodeInfo[];
  parameters: boolean;
  direction: Direction;
  /** Why the graph ends before the model does, or null. */
  partial: string | null;
}

export type Direction = 'TB' | 'LR';
/** The file types for saving a drawing: label and purpose. */
export const EXPORTS = {
  svg: 'the drawing, to scale without loss', png: 'the drawing as an image', dot: 'the graph, for Graphviz', json: 'the nodes with all that is known of them',
} as const;
export type ExportFormat = keyof typeof EXPORTS;

/** The user's options for the drawing; a missing key leaves it unchanged, `expanded: null` lets the server choose. */
export interface Options {
  target?: string;
  expanded?: string[] | null;
  parameters?: boolean;
  direction?: Direction;
}

export type ToPage =
  | { type: 'graph'; view: GraphView; trace: number | null }
  | { type: 'empty'; reason: string }
  | { type: 'select'; names: string[] }
  | { type: 'stale'; stale: boolean }
  | { type: 'values'; target: string; trace: number; ranges: Record<string, ValueRange>; first: string | null }
  | { type: 'pinned'; pinned: boolean }
  | { type: 'export'; format: ExportFormat };

export type ToHost =
  | { type: 'ready' }
  | { type: 'options'; options: Options }
  | { type: 'reveal'; names: string[]; focus: boolean }
  | { type: 'run'; target: string }
  | { type: 'pin'; pinned: boolean }
  | { type: 'export' }
  | { type: 'exported'; format: ExportFormat; data: string };

const direction = oneOf('TB', 'LR');
const format = oneOf(...(Object.keys(EXPORTS) as ExportFormat[]));

const node = shape({
  name: text, op: text, target: text, args: text, inputs: texts, users: texts, module: text, type: text, value: text,
  params: numeric, flops: either(numeric, nothing), bytes: either(numeric, nothing), seconds: either(numeric, nothing), lowering: either(text, nothing),
  facts: list(pair),
});
const view = shape({
  file: text, target: text, targets: texts, dot: text, expanded: texts, elements: record(texts),
  groups: record(shape({ title: text, open: flag, nodes: numeric })), nodes: list(node), parameters: flag, direction,
  partial: either(text, nothing),
});
const number = either(numeric, nothing);
const range = shape({ low: number, high: number, mean: number, count: numeric, nans: numeric, infinities: numeric });
const options = shape({
  target: either(text, absent), expanded: either(texts, nothing, absent), parameters: either(flag, absent),
  direction: either(direction, absent),
});

const PAGE: Record<ToPage['type'], Check> = {
  graph: shape({ view, trace: number }),
  empty: shape({ reason: text }),
  select: shape({ names: texts }),
  stale: shape({ stale: flag }),
  values: shape({ target: text, trace: numeric, ranges: record(range), first: either(text, nothing) }),
  pinned: shape({ pinned: flag }),
  export: shape({ format }),
};
const HOST: Record<ToHost['type'], Check> = {
  ready: shape({}),
  options: shape({ options }),
  reveal: shape({ names: texts, focus: flag }),
  run: shape({ target: text }),
  pin: shape({ pinned: flag }),
  export: shape({}),
  exported: shape({ format, data: text }),
};

export const isToPage = (value: unknown): value is ToPage => matches(PAGE, value);
export const isToHost = (value: unknown): value is ToHost => matches(HOST, value);
