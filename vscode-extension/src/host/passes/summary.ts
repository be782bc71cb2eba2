/** The result of passes in a few sentences. */
import type { PassAnswer } from '../../protocol/passes';
import { scientific } from '../lowering/sheets';

/** `6 → 5 nodes, relative difference 1.2e-7`, for a title. */
export function numbers({ nodes, error }: PassAnswer): string {
  const difference = error === null ? '' : error === 0 ? ', identical results' : `, relative difference ${scientific(error)}`;
  return `${nodes[0]} → ${nodes[1]} nodes${difference}`;
}

/** Size, difference of the results, and what was left unchanged. */
export function summary({ target, nodes, error, refused, notes }: PassAnswer): string {
  const equal = error === null ? '' : error === 0 ? 'The results are identical.' : `The relative difference of the results is ${scientific(error)}.`;
  const left = refused.length ? `Not changed: ${refused.slice(0, 3).join('; ')}${refused.length > 3 ? ` and ${refused.length - 3} more` : ''}.` : '';
  return [`${target}: ${nodes[0]} nodes before, ${nodes[1]} after.`, equal, ...notes, left].filter(Boolean).join(' ');
}
