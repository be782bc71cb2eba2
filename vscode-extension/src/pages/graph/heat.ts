/** What the boxes of a drawing cost, as shares of the most expensive one. No DOM in it. */
import type { GraphView, NodeInfo } from '../../protocol/graph_page';
import { big, bytes, milliseconds } from '../../quantities';

export type Measure = 'flops' | 'params' | 'bytes' | 'seconds';

interface Cost {
  /** In the list of what to colour by. */
  title: string;
  /** In a sentence. */
  name: string;
  write(amount: number): string;
}

export const COSTS: Record<Measure, Cost> = {
  flops: { title: 'FLOPs', name: 'FLOPs', write: amount => big(amount, 'FLOPs') },
  params: { title: 'Parameters', name: 'parameters', write: amount => big(amount, '') },
  bytes: { title: 'Memory traffic', name: 'memory traffic', write: bytes },
  seconds: { title: 'Predicted time', name: 'predicted time', write: amount => milliseconds(amount * 1000) },
};

export interface Heat {
  measure: Measure;
  /** Box to what it costs. */
  amounts: Map<string, number>;
  most: number;
  total: number;
}

/** The measures that are known of at least one node. */
export const measures = (view: GraphView): Measure[] =>
  (Object.keys(COSTS) as Measure[]).filter(measure => view.nodes.some(node => node[measure]));

/** What each box costs; a closed module costs what its nodes do. */
export function heat(view: GraphView, measure: Measure): Heat {
  const nodes = new Map(view.nodes.map(node => [node.name, node]));
  const amounts = new Map(Object.entries(view.elements).map(([id, names]) =>
    [id, cost(names.flatMap(name => nodes.get(name) ?? []), measure)]));
  return { measure, amounts, most: Math.max(0, ...amounts.values()), total: cost(view.nodes, measure) };
}

/** The sum over nodes; the parameters of a module that is called twice count once. */
export function cost(nodes: NodeInfo[], measure: Measure): number {
  const counted = measure === 'params' ? [...new Map(nodes.map(node => [node.target, node])).values()] : nodes;
  return counted.reduce((sum, node) => sum + (node[measure] ?? 0), 0);
}

/** `1.81 GFLOPs, 24 %`: an amount and its share of the whole. */
export function share(amount: number, { measure, total }: Heat): string {
  return `${COSTS[measure].write(amount)}, ${total ? percent(amount / total) : '0 %'}`;
}

const percent = (part: number) => `${part > 0 && part < 0.01 ? '<1' : Math.round(100 * part)} %`;
