/** The drawing as a file: colours are written into a copy, since a file has no theme. */
import type { ExportFormat } from '../../protocol/graph_page';
import type { Drawing } from './drawing';

const PAINT = [
  'fill', 'fill-opacity', 'stroke', 'stroke-opacity', 'stroke-width', 'stroke-dasharray', 'font-family', 'font-size', 'font-weight', 'opacity',
];
/** Marks of the user's position, which are not part of the graph. */
const STATES = ['searching', 'selected', 'found'];
/** The limits of a canvas in browsers: the longer side, and the total pixels. */
const LONGEST = 32_000;
const LARGEST = 120_000_000;

export async function exportGraph(drawing: Drawing, format: ExportFormat): Promise<string> {
  switch (format) {
    case 'dot':
      return drawing.view.dot;
    case 'json':
      return JSON.stringify({ target: drawing.view.target, file: drawing.view.file, nodes: drawing.view.nodes }, null, 2);
    case 'svg':
      return standAlone(drawing.svg);
    case 'png':
      return raster(standAlone(drawing.svg), drawing.svg);
  }
}

function standAlone(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.removeAttribute('style');
  copy.classList.remove(...STATES);
  copy.removeAttribute('role');
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  const from = svg.querySelectorAll('*');
  const restore = plain(svg);
  copy.querySelectorAll('*').forEach((element, index) => {
    const style = getComputedStyle(from[index]);
    for (const name of PAINT) element.setAttribute(name, plainColour(style.getPropertyValue(name)));
    for (const name of ['tabindex', 'role', 'aria-label', 'aria-selected', 'aria-expanded']) element.removeAttribute(name);
    element.classList.remove(...STATES);
  });
  restore();
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  for (const name of ['width', 'height']) ground.setAttribute(name, '100%');
  ground.setAttribute('fill', getComputedStyle(document.body).backgroundColor);
  const [x, y] = (svg.getAttribute('viewBox') ?? '0 0').split(/\s+/);
  ground.setAttribute('x', x);
  ground.setAttribute('y', y);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** `rgb(…)` for a browser's syntax of mixed colours, which other programs do not read. */
function plainColour(text: string): string {
  const parts = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)\)$/.exec(text);
  return parts ? `rgb(${parts.slice(1).map(part => Math.round(255 * Number(part))).join(', ')})` : text;
}

/** Removes the marks of searches and selections; the returned function restores them. */
function plain(svg: SVGSVGElement): () => void {
  const marked = [svg, ...svg.querySelectorAll(STATES.map(name => `.${name}`).join())].map(element => ({ element, classes: element.getAttribute('class') }));
  for (const { element } of marked) element.classList.remove(...STATES);
  return () => {
    for (const { element, classes } of marked) element.setAttribute('class', classes ?? '');
  };
}

/** PNG as base64, at twice the size of the drawing unless that is too large for a canvas. */
async function raster(text: string, svg: SVGSVGElement): Promise<string> {
  const width = Number(svg.getAttribute('width'));
  const height = Number(svg.getAttribute('height'));
  const scale = Math.min(2, LONGEST / Math.max(width, height), Math.sqrt(LARGEST / (width * height)));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/png').split(',')[1];
}
