/** Maps nodes to source lines and back; plain data, independent of VS Code. */
import type { Range } from 'vscode-languageclient';
import type { Place } from '../../protocol/graph';

export interface Lines {
  start: number;
  end: number;
}

/** The lines of selections, from 0; a selection that ends before the first character of a line does not hold that line. */
export function linesOf(selections: readonly Range[]): Lines[] {
  return selections.map(({ start, end }) => ({ start: start.line, end: end.character === 0 && end.line > start.line ? end.line - 1 : end.line }));
}

/** The nodes that come from any of the lines: by their own expression, or by a call that leads to them. */
export function nodesAt(places: Record<string, Place[]>, isHere: (uri: string) => boolean, lines: Lines[]): string[] {
  const here = new Map<string, boolean>();
  const inFile = (uri: string) => {
    if (!here.has(uri)) here.set(uri, isHere(uri));
    return here.get(uri);
  };
  const touches = ({ start, end }: Range) => lines.some(each => start.line <= each.end && each.start <= end.line);
  return Object.entries(places).filter(([, all]) => all.some(place => touches(place.range) && inFile(place.uri))).map(([name]) => name);
}

/**
 * The places of these nodes: in `preferred` if any of them has a place there (also by a call that leads to it),
 * otherwise in the file of the first. Overlapping ranges are merged, as an editor would, so that the selection can be
 * recognized.
 */
export function placesIn(places: Record<string, Place[]>, names: string[], preferred?: string): { uri: string; ranges: Range[] } | undefined {
  const lists = names.map(name => places[name] ?? []).filter(list => list.length);
  if (!lists.length) return undefined;
  const uri = lists.some(list => list.some(place => place.uri === preferred)) ? (preferred as string) : lists[0][0].uri;
  return { uri, ranges: merged(lists.flatMap(list => list.find(each => each.uri === uri)?.range ?? [])) };
}

/** The ranges in text order, with overlapping ones merged. */
function merged(ranges: Range[]): Range[] {
  const found: Range[] = [];
  for (const range of [...ranges].sort((a, b) => compare(a.start, b.start))) {
    const last = found[found.length - 1];
    if (!last || (compare(range.start, last.end) >= 0 && compare(range.start, last.start) !== 0)) found.push({ ...range });
    else if (compare(range.end, last.end) > 0) last.end = range.end;
  }
  return found;
}

const compare = (a: Range['start'], b: Range['start']) => a.line - b.line || a.character - b.character;
