/** What is said of passes in a few sentences. */
import type { PassAnswer } from '../../protocol/code';

/** Size, difference of the results, and what was left as it was. */
export function summary({ target, nodes, error, refused, notes }: PassAnswer): string {
  const equal = error === null ? '' : error === 0 ? 'The result is the same to the last bit.' : `The result differs by ${error.toExponential(1)}, relatively.`;
  const left = refused.length ? `Left as it was: ${refused.slice(0, 3).join('; ')}${refused.length > 3 ? ` and ${refused.length - 3} more` : ''}.` : '';
  return [`${target}: ${nodes[0]} nodes before, ${nodes[1]} after.`, equal, ...notes, left].filter(Boolean).join(' ');
}
