/** Costs or values of the drawing's boxes, relative to the largest. Independent of the DOM. */
import type { GraphView, NodeInfo, ValueRange } from '../../protocol/graph_page';
import { big, bytes, milliseconds } from '../../quantities';

export type Measure = 'flops' | 'params' | 'bytes' | 'seconds' | 'magnitude';
export type Ranges = Record<string, ValueRange>;

interface Colour {
  /** The label in the list of colourings. */
  title: string;
  /** The name within a sentence. */
  name: string;
  of(node: NodeInfo, ranges: Ranges): number;
  write(amount: number): string;
  /** Whether amounts are summed; otherwise the largest counts. */
  adds: boolean;
}

const magnitude = (range: ValueRange | undefined) => Math.max(Math.abs(range?.low ?? 0), Math.abs(range?.high ?? 0));
const value = (number: number) => String(Number(number.toPrecision(3)));

export const COLOURS: Record<Measure, Colour> = {
  flops: { title: 'FLOPs', name: 'FLOPs', of: node => node.flops ?? 0, write: amount => big(amount, 'FLOPs'), adds: true },
  params: { title: 'Parameters', name: 'parameters', of: node => node.params, write: amount => big(amount, ''), adds: true },
  bytes: { title: 'Memory traffic', name: 'memory traffic', of: node => node.bytes ?? 0, write: bytes, adds: true },
  seconds: { title: 'Predicted time', name: 'predicted time', of: node => node.seconds ?? 0, write: amount => milliseconds(amount * 1000), adds: true },
  magnitude: { title: 'Largest value', name: 'largest value', of: (node, ranges) => magnitude(ranges[node.name]), write: value, adds: false },
};

export interface Heat {
  measure: Measure;
  /** Box to its amount. */
  amounts: Map<string, number>;
  most: number;
  total: number;
}

/** The measures known for at least one node. */
export const measures = (view: GraphView, ranges: Ranges): Measure[] =>
  (Object.keys(COLOURS) as Measure[]).filter(measure =>
    view.nodes.some(node => (measure === 'magnitude' ? ranges[node.name] : COLOURS[measure].of(node, ranges))));

/** The amount of each box; a collapsed module has that of its nodes. */
export function heat(view: GraphView, measure: Measure, ranges: Ranges): Heat {
  const nodes = new Map(view.nodes.map(node => [node.name, node]));
  const amounts = new Map(Object.entries(view.elements).map(([id, names]) =>
    [id, amount(names.flatMap(name => nodes.get(name) ?? []), measure, ranges)]));
  return { measure, amounts, most: Math.max(0, ...amounts.values()), total: amount(view.nodes, measure, ranges) };
}

/** The amount of several nodes; parameters of a module that is called twice count once. */
export function amount(nodes: NodeInfo[], measure: Measure, ranges: Ranges): number {
  const { of, adds } = COLOURS[measure];
  const counted = measure === 'params' ? [...new Map(nodes.map(node => [node.target, node])).values()] : nodes;
  return counted.reduce((sum, node) => (adds ? sum + of(node, ranges) : Math.max(sum, of(node, ranges))), 0);
}

/** `1.81 GFLOPs, 24 %`: an amount and its share of the whole. */
export function share(amount: number, { measure, total }: Heat): string {
  const { adds, write } = COLOURS[measure];
  return adds ? `${write(amount)}, ${percent(amount / (total || 1))}` : write(amount);
}

/** `-1.2 … 3.41, mean 0.013`, and the number of non-finite ones. */
export function written(range: ValueRange): string {
  const { low, high, mean, count, nans, infinities } = range;
  const finite = low === null || high === null || mean === null ? 'none is finite' : `${value(low)} … ${value(high)}, mean ${value(mean)}`;
  const others = [nans ? `${nans.toLocaleString('en')} NaN` : '', infinities ? `${infinities.toLocaleString('en')} infinite` : ''].filter(Boolean);
  return others.length ? `${finite}; ${others.join(' and ')} of ${count.toLocaleString('en')}` : finite;
}

export const isFinite = (range: ValueRange | undefined) => !range || !(range.nans || range.infinities);

const percent = (part: number) => `${part > 0 && part < 0.01 ? '<1' : Math.round(100 * part)} %`;
