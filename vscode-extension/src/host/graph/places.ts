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
  const inFile = remembered(isHere);
  const touches = ({ start, end }: Range) => lines.some(each => start.line <= each.end && each.start <= end.line);
  return Object.entries(places).filter(([, all]) => all.some(place => touches(place.range) && inFile(place.uri))).map(([name]) => name);
}

/** A change of a text: what of it was replaced, and by what. */
export interface Edit {
  range: Range;
  text: string;
}

/** The places after edits of a text, as an editor keeps its own marks: they move with it, and what an edit cuts into is gone. */
export function moved(places: Record<string, Place[]>, isHere: (uri: string) => boolean, edits: readonly Edit[]): Record<string, Place[]> {
  const inFile = remembered(isHere);
  const after = (place: Place): Place[] => {
    if (!inFile(place.uri)) return [place];
    const range = edits.reduce<Range | undefined>((known, edit) => known && rangeAfter(known, edit), place.range);
    return range ? [{ ...place, range }] : [];
  };
  return Object.fromEntries(Object.entries(places).map(([name, all]) => [name, all.flatMap(after)]));
}

function rangeAfter({ start, end }: Range, { range, text }: Edit): Range | undefined {
  const lines = text.split(/\r\n|\r|\n/);
  const line = range.start.line + lines.length - 1;
  const character = (lines.length > 1 ? 0 : range.start.character) + lines[lines.length - 1].length;
  const pushed = (at: Range['start']) => ({
    line: at.line - range.end.line + line,
    character: at.line === range.end.line ? at.character - range.end.character + character : at.character,
  });
  // What is inserted at an end does not belong to the range.
  const from = compare(start, range.end) >= 0 ? pushed(start) : compare(start, range.start) <= 0 ? start : undefined;
  const to = compare(end, range.start) <= 0 ? end : compare(end, range.end) >= 0 ? pushed(end) : undefined;
  return from && to && compare(from, to) < 0 ? { start: from, end: to } : undefined;
}

/** The function with its answers remembered: there are many places, and few texts. */
function remembered(isHere: (uri: string) => boolean): (uri: string) => boolean {
  const known = new Map<string, boolean>();
  return uri => {
    const here = known.get(uri) ?? isHere(uri);
    known.set(uri, here);
    return here;
  };
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
