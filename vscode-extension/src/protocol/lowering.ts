/** The requests that lower, time and estimate a model and compare its stages, and their results. */
import { RequestType } from 'vscode-languageclient';
import type { Place } from './graph';
import type { ValueRange } from './graph_page';

export interface JobParams {
  uri: string;
  target: string;
  options: Record<string, unknown>;
  workDoneToken: string;
}

/** `trace` is that of the text that was run, as in `GraphAnswer`; null if it was not traced yet. */
export type Answer<Result> = { result: Result; places: Record<string, Place[]>; trace: number | null } | { reason: string };

/** An engine that models can be lowered to. */
export interface Engine {
  name: string;
  label: string;
  /** The hardware, as text. */
  runs_on: string;
  /** The usual one first. */
  precisions: string[];
  /** Whether sizes may change between calls. */
  dynamic: boolean;
  /** Why it cannot run here. */
  missing: string | null;
}

export interface Kernel {
  name: string;
  kind: string;
  tactic: string;
  types: string[];
  nodes: string[];
  bytes: number;
}

export interface Part {
  name: string;
  engine: string | null;
  nodes: string[];
  operators: Record<string, number>;
  weights_bytes: number;
  build_ms: number;
  kernels: Kernel[];
  info: { version?: string; log?: string | string[]; cannot_run?: string; threads?: number; plan_bytes?: number };
}

export interface Layer {
  node: string;
  part: string;
  target: string;
  engine: boolean;
  operators: string[];
  value: string;
  precision: string;
  weights_bytes: number;
  /** Floating-point operations on the example inputs; null if unknown. */
  flops: number | null;
  code: string | null;
  reason: string | null;
  span: Span | null;
}

/** File, line and column from 1, end line, end column. */
export type Span = [string, number, number, number, number];

/** The time of one run for a node, and those computed in the same kernels. */
export interface LayerTime {
  node: string;
  nodes: string[];
  kernels: string[];
  ms: number;
  share: number;
  span: Span | null;
}

/** The difference from eager: not finite if only one of both has NaN or an infinity. */
export type Difference = number | 'not finite';

export interface LowerResult {
  target: string;
  report: {
    label: string;
    precision: string;
    complete: boolean;
    /** False for a preview. */
    built: boolean;
    captured_by: string;
    /** Why there is no trace, if another capture was used. */
    not_traced: string | null;
    /** Input to its dimensions that may change. */
    dynamic: Record<string, number[]>;
    parts: Part[];
    layers: Layer[];
    timings: Record<string, number>;
    max_abs_error: Difference | null;
    max_rel_error: Difference | null;
  };
}

export interface Measurement {
  title: string;
  batch: number;
  threads: number;
  median_ms?: number;
  p10_ms?: number;
  p90_ms?: number;
  noise?: number;
  samples?: number;
  prepare_ms: number;
  first_ms: number;
  memory_mib: number | null;
  max_rel_error: Difference | null;
  speedup: number | null;
  problem: string | null;
  layers: LayerTime[];
}

export interface BenchResult {
  target: string;
  svg: string;
  report: {
    inputs: string;
    environment: { torch: string; cpu: string; cores: number; gpu: string | null; load: number };
    rows: Measurement[];
  };
}

export interface EstimateResult {
  target: string;
  device: string | null;
  totals: { flops: number; bytes: number; parameters: number; peak_bytes: number; peak_node: string | null; seconds: number | null; launch_seconds: number | null };
  nodes: { name: string; target: string; flops: number; read: number; written: number; parameters: number; seconds: number | null }[];
}

/** The range of each node's values on the example inputs, and the first node with non-finite values. */
export interface ValuesResult {
  target: string;
  ranges: Record<string, ValueRange>;
  first: string | null;
}

/** A node of a stage. */
export interface Step {
  name: string;
  target: string;
  /** The nodes of the first stage that it comes from. */
  origins: string[];
  /** The origin at which it is shown; the others were fused with that. */
  at: string;
  /** Its value's difference from eager; null if not compared. */
  max_abs: Difference | null;
  /** The same, relative to the largest magnitude there. */
  max_rel: Difference | null;
}

/** One form of a model on its way to an engine. */
export interface Stage {
  name: string;
  steps: Step[];
  /** Why the model has no such form. */
  problem: string | null;
  /** A remark about its values. */
  note: string | null;
  /** The number of steps with origins. */
  mapped: number;
  /** The first step that diverges from eager. */
  diverges: string | null;
}

export interface StagesResult {
  target: string;
  report: { model: string; compared: boolean; stages: Stage[] };
  /** Whether it is quantized instead of fused. */
  quantize: boolean;
  /** The engine of the last stage, and the available ones. */
  engine: string;
  engines: Engine[];
}

export const engines = new RequestType<{ uri: string }, { engines: Engine[] } | { reason: string }, void>('fxlens/engines');
export const lower = new RequestType<JobParams, Answer<LowerResult>, void>('fxlens/lower');
export const bench = new RequestType<JobParams, Answer<BenchResult>, void>('fxlens/bench');
export const estimate = new RequestType<JobParams, Answer<EstimateResult>, void>('fxlens/estimate');
export const values = new RequestType<JobParams, Answer<ValuesResult>, void>('fxlens/values');
export const stages = new RequestType<JobParams, Answer<StagesResult>, void>('fxlens/stages');
