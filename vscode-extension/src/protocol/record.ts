/** What one trace of a file found. Written by scripts/protocol_types.py from server/fxlens/record.py. */

/** A range of a file. */
export interface Span {
  file: string;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}

/** A range of a file and the text that replaces it. */
export interface Edit {
  file: string;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  text: string;
}

/** A change of source that answers a finding. */
export interface Fix {
  id: string;
  title: string;
  kind: string;
  capture: string;
  preferred: boolean;
  checked: boolean;
  assumes: string | null;
  note: string | null;
  edits: Edit[];
}

/** A message beside a finding: what torch.fx prints, a step of the call path, the value that decided, or a note. */
export interface Related {
  message: string;
  span: Span | null;
  kind: string;
}

/** One problem at one place. */
export interface Finding {
  code: string;
  severity: 'error' | 'warning' | 'info' | 'hint';
  message: string;
  span: Span | null;
  target: string | null;
  call_path: Span[];
  node: string | null;
  data: Record<string, string | number | boolean | null>;
  captures: Record<string, string>;
  severities: Record<string, 'error' | 'warning' | 'info' | 'hint'>;
  related: Related[];
  fixes: Fix[];
  tags: string[];
  source: string;
  stale: boolean;
}

/** How a model was constructed or called, and the source of that. */
export interface Origin {
  text: string;
  source: string;
  line: number | null;
  file: string | null;
}

/** The minimum time by a device's data sheet, and the launch time of a kernel. */
export interface Predicted {
  device: string;
  seconds: number;
}

/** A node of a graph. */
export interface Node {
  name: string;
  op: string;
  target: string;
  args: string;
  inputs: string[];
  span: Span | null;
  call_path: Span[];
  returned: Record<string, unknown>;
  module_path: string;
  module_type: string;
  settings: string;
  shape: (number | string)[] | null;
  symbolic: (number | string)[] | null;
  dtype: string | null;
  structure: string;
  value: string;
  params: number;
  flops: number | null;
  predicted: Predicted | null;
}

/** Common to a node and a row of a report: a name, and its place in the source. */
export interface Located {
  name: string;
  span: Span | null;
  call_path: Span[];
}

/** A part of a forward that the trace never reached, and why. */
export interface Untaken {
  span: Span;
  reason: string;
}

/** An expression that was read while tracing, and the value that the graph keeps of it. */
export interface Baked {
  span: Span;
  text: string;
  value: string;
}

/** The graph of a model and the forward that it generates. */
export interface Graph {
  nodes: Node[];
  modules: Record<string, string>;
  code: string;
  code_lines: Record<string, number[]>;
}

/** The result of a capture other than torch.fx for a model. */
export interface Verdict {
  capture: string;
  outcome: 'captured' | 'parts' | 'pinned' | 'fails' | 'unknown';
  text: string;
  reason: string;
  breaks: number;
  graphs: number;
  fullgraph: boolean | null;
  graph: Graph | null;
}

/** A model of the file.  The position is that of the class statement's name; ``timings`` are milliseconds. */
export interface Target {
  nodes: Node[];
  modules: Record<string, string>;
  code: string;
  code_lines: Record<string, number[]>;
  name: string;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  status: 'traced' | 'partial' | 'failed' | 'skipped';
  reason: string | null;
  role: 'meant' | 'root' | 'other' | 'aside' | null;
  why: string;
  limit: 'error' | 'warning' | 'info' | 'hint';
  construct: Origin | null;
  inputs: Origin | null;
  findings: Finding[];
  lowering: Finding[];
  captures: Verdict[];
  captured: Finding[];
  taken: Span[];
  untaken: Untaken[];
  baked: Baked[];
  doubtful: boolean;
  alone: boolean;
  timings: Record<string, number>;
}

/** What one trace of a file found. */
export interface TraceRecord {
  version: number;
  path: string;
  python: string | null;
  torch: string | null;
  executable: string | null;
  targets: Target[];
  findings: Finding[];
  limit: 'error' | 'warning' | 'info' | 'hint';
  output: string;
  files: string[];
  looked_at: Record<string, string | null>;
  written: string[];
  asked: string[];
  variables: string[];
  third_party: string[];
  timings: Record<string, number>;
  notes: string[];
  failure: string | null;
}
