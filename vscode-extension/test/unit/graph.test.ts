/** Between nodes and lines, the comment of example inputs, and the messages that are let through. */
import { describe, expect, it } from 'vitest';
import { sourceOf } from '../../src/host/code/addresses';
import { summary } from '../../src/host/passes/summary';
import { linesOf, nodesAt, placesIn } from '../../src/host/graph/places';
import { heat, measures, share, written } from '../../src/pages/graph/heat';
import { graphHtml } from '../../src/pages/graph/document';
import { isToHost, isToPage } from '../../src/protocol/graph_page';
import type { PassAnswer } from '../../src/protocol/passes';
import type { Place } from '../../src/protocol/graph';

const at = (uri: string, line: number, from = 0, to = 10): Place =>
  ({ uri, range: { start: { line, character: from }, end: { line, character: to } } });
const NET = 'file:///net.py';
const BLOCK = 'file:///block.py';
const places = { conv: [at(BLOCK, 7), at(NET, 3)], relu: [at(BLOCK, 8), at(NET, 3)], head: [at(NET, 5)], x: [] };

describe('nodes at lines', () => {
  const isNet = (uri: string) => uri === NET;
  it('are those of the expression, and those that a call on the line leads to', () => {
    expect(nodesAt(places, isNet, [{ start: 3, end: 3 }])).toEqual(['conv', 'relu']);
    expect(nodesAt(places, isNet, [{ start: 4, end: 6 }])).toEqual(['head']);
    expect(nodesAt(places, isNet, [{ start: 3, end: 3 }, { start: 5, end: 5 }])).toEqual(['conv', 'relu', 'head']);
    expect(nodesAt(places, uri => uri === BLOCK, [{ start: 7, end: 7 }])).toEqual(['conv']);
    expect(nodesAt(places, isNet, [{ start: 9, end: 9 }])).toEqual([]);
  });
  it('are those of the lines a selection holds: one made by a triple click ends before the next line', () => {
    const selection = (start: number, end: number, character: number) => ({ start: { line: start, character: 0 }, end: { line: end, character } });
    expect(linesOf([selection(3, 4, 0), selection(5, 6, 2), selection(7, 7, 0)])).toEqual([{ start: 3, end: 3 }, { start: 5, end: 6 }, { start: 7, end: 7 }]);
  });
});

describe('the source behind what is in front', () => {
  const shown = (scheme: string, languageId = 'python', query = '') => ({ uri: { scheme, query, toString: () => `${scheme}:net` } as any, languageId });
  it('is a Python file itself, saved or not, or the file that a view is made of', () => {
    expect(String(sourceOf(shown('file')))).toBe('file:net');
    expect(String(sourceOf(shown('untitled')))).toBe('untitled:net');
    expect(String(sourceOf(shown('fxlens', 'plaintext', JSON.stringify([NET, 'Net', 'table']))))).toBe(NET);
  });
  it('is nothing where the server has no text: a side of a diff, another language, no editor', () => {
    expect([shown('fxlens-pass'), shown('git'), shown('file', 'markdown'), undefined].map(sourceOf)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('places of nodes', () => {
  it('are taken in the preferred file where there are any, each once', () => {
    expect(placesIn(places, ['conv', 'relu'], NET)).toEqual({ uri: NET, ranges: [at(NET, 3).range] });
  });
  it('are one where they overlap, in the order of the text', () => {
    const nested = { outer: [at(NET, 4, 2, 20)], other: [at(NET, 2, 0, 5)], inner: [at(NET, 4, 4, 9)], longer: [at(NET, 4, 15, 30)], beside: [at(NET, 4, 30, 40)] };
    expect(placesIn(nested, ['outer', 'other', 'inner', 'longer', 'beside'], NET)).toEqual({
      uri: NET, ranges: [at(NET, 2, 0, 5).range, at(NET, 4, 2, 30).range, at(NET, 4, 30, 40).range],
    });
    expect(nested.outer[0].range.end.character, 'the places stay as they are').toBe(20);
  });
  it('are else taken in the file of the first', () => {
    expect(placesIn(places, ['conv', 'relu'], 'file:///other.py')).toEqual({ uri: BLOCK, ranges: [at(BLOCK, 7).range, at(BLOCK, 8).range] });
    expect(placesIn(places, ['x', 'missing'], NET)).toBeUndefined();
  });
});

describe('messages', () => {
  it.each([
    { type: 'ready' }, { type: 'options', options: {} }, { type: 'options', options: { expanded: null, direction: 'LR' } },
    { type: 'reveal', names: ['a'], focus: true }, { type: 'export' }, { type: 'exported', format: 'svg', data: '' },
  ])('of the page are let through: %j', message => expect(isToHost(message)).toBe(true));
  it.each([
    null, 1, 'ready', {}, { type: 'run' }, { type: 'constructor' }, { type: 'options', options: { expanded: 'all' } },
    { type: 'options', options: { direction: 'XX' } }, { type: 'reveal', names: [1], focus: true }, { type: 'reveal', names: ['a'] },
    { type: 'exported', format: 'exe', data: '' }, { type: 'pin', pinned: 'yes' },
  ])('that are none of the protocol are not: %j', message => expect(isToHost(message)).toBe(false));
  it('to the page are checked as deeply', () => {
    expect(isToPage({ type: 'select', names: ['a'] })).toBe(true);
    expect(isToPage({ type: 'graph', view: { dot: 'digraph {}' }, trace: 1 })).toBe(false);
    expect(isToPage({ type: 'empty' })).toBe(false);
  });
});

describe('the page', () => {
  const html = graphHtml({ script: 'S.js', style: 'S.css', source: 'https://source', nonce: 'NONCE' });
  it('allows its own script and style and no other', () => {
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)![1];
    expect(policy).toBe("default-src 'none'; script-src 'nonce-NONCE' 'wasm-unsafe-eval'; style-src https://source; img-src data:");
  });
  it('has one script, by its nonce, and no handler in the markup', () => {
    expect(html.match(/<script/g)).toHaveLength(1);
    expect(html).toContain('<script nonce="NONCE" src="S.js">');
    expect(html).not.toMatch(/ on\w+=/);
  });
});

describe('what is said of a pass', () => {
  const answer: PassAnswer = {
    target: 'Net', passes: ['fuse'], before: '', after: '', error: 2.3e-7, nodes: [177, 124], refused: [], notes: [], library: true, construction: null, kept: null,
  };
  it('is the size, the difference and what was left', () => {
    expect(summary(answer)).toBe('Net: 177 nodes before, 124 after. The relative difference of the results is 2.3e-7.');
    expect(summary({ ...answer, notes: ['3 places swapped.'] })).toMatch(/2\.3e-7\. 3 places swapped\.$/);
    expect(summary({ ...answer, error: 0 })).toContain('The results are identical.');
    expect(summary({ ...answer, error: null, refused: ['bn1: used twice', 'a', 'b', 'c'] })).toBe(
      'Net: 177 nodes before, 124 after. Not changed: bn1: used twice; a; b and 1 more.');
  });
});

describe('the colours of boxes by what they cost', () => {
  const node = (name: string, target: string, costs: object) => ({ name, target, params: 0, flops: null, bytes: null, seconds: null, ...costs });
  const view = {
    elements: { 'n:a': ['a'], 'm:block': ['b', 'c'], 'n:x': ['x'] },
    nodes: [node('x', 'x', {}), node('a', 'fc', { params: 10, flops: 1e6 }), node('b', 'fc', { params: 10, flops: 3e6 }), node('c', 'head', { params: 30, flops: 4e6 })],
  } as any;
  it('are shares of the most expensive box; a closed module costs what its nodes do', () => {
    const { amounts, most, total } = heat(view, 'flops', {});
    expect([...amounts]).toEqual([['n:a', 1e6], ['m:block', 7e6], ['n:x', 0]]);
    expect([most, total]).toEqual([7e6, 8e6]);
    expect(share(1e6, heat(view, 'flops', {}))).toBe('1.00 MFLOPs, 13 %');
  });
  it('count the parameters of a module that is called twice once', () => expect(heat(view, 'params', {}).total).toBe(40));
  it('are offered for what is known', () => expect(measures(view, {})).toEqual(['flops', 'params']));
  it('tell how large values are, and what is not finite', () => {
    const range = (low: number | null, high: number | null, nans = 0) => ({ low, high, mean: low, count: 4096, nans, infinities: nans && 2 });
    const ranges = { a: range(-3, 1), b: range(0.5, 2), c: range(null, null, 4096) };
    const { amounts, most } = heat(view, 'magnitude', ranges);
    expect([...amounts.values(), most]).toEqual([3, 2, 0, 3]);
    expect(measures(view, ranges)).toContain('magnitude');
    expect(written(ranges.a)).toBe('-3 … 1, mean -3');
    expect(written(ranges.c)).toBe('none is finite; 4,096 NaN and 2 infinite of 4,096');
  });
});
