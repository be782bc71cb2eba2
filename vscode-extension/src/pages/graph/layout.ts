/** DOT to an SVG element of this document: Graphviz does the layout, and only known shapes are copied. */
import { Graphviz } from '@hpcc-js/wasm-graphviz';

const SVG = 'http://www.w3.org/2000/svg';
const SHAPES = new Set(['svg', 'g', 'path', 'polygon', 'polyline', 'ellipse', 'text']);
const ATTRIBUTES = new Set([
  'id', 'class', 'd', 'points', 'x', 'y', 'cx', 'cy', 'rx', 'ry', 'transform', 'viewBox', 'text-anchor', 'font-family', 'font-size',
]);
/** Graphviz writes points, of which 72 make an inch; a page has 96 pixels in one. */
const PIXELS = 96 / 72;

export interface Layout {
  svg: SVGSVGElement;
  width: number;
  height: number;
}

let engine: Promise<Graphviz> | undefined;

export async function layOut(dot: string): Promise<Layout> {
  engine ??= Graphviz.load();
  const text = (await engine).layout(dot, 'svg', 'dot');
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  const svg = copy(parsed) as SVGSVGElement;
  const [, , width, height] = (parsed.getAttribute('viewBox') ?? '0 0 1 1').split(/\s+/).map(Number);
  return { svg, width: width * PIXELS, height: height * PIXELS };
}

function copy(source: Element): Element {
  const element = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) if (ATTRIBUTES.has(name)) element.setAttribute(name, value);
  for (const child of source.children) if (SHAPES.has(child.localName)) element.append(copy(child));
  if (source.localName === 'text') element.textContent = source.textContent;
  return element;
}
