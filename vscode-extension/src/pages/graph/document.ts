/** The document of the graph's page. */
import { type PageFiles, pageHtml } from '../document';

/** Icons of 16 by 16, drawn in the colour of the text. */
const ICONS: Record<string, string> = {
  out: '<circle cx="7" cy="7" r="4.5"/><path d="M10.3 10.3 14 14M5 7h4"/>',
  in: '<circle cx="7" cy="7" r="4.5"/><path d="M10.3 10.3 14 14M5 7h4M7 5v4"/>',
  fit: '<path d="M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10"/>',
  collapse: '<path d="M5.5 3.5v-1h8v8h-1"/><rect x="2.5" y="5.5" width="8" height="8"/><path d="M4.5 9.5h4"/>',
  expand: '<path d="M5.5 3.5v-1h8v8h-1"/><rect x="2.5" y="5.5" width="8" height="8"/><path d="M4.5 9.5h4M6.5 7.5v4"/>',
  parameters: '<ellipse cx="8" cy="4" rx="5" ry="1.8"/><path d="M3 4v8c0 1 2.2 1.8 5 1.8s5-.8 5-1.8V4M3 8c0 1 2.2 1.8 5 1.8S13 9 13 8"/>',
  direction: '<path d="M2 8h11M9.5 4.5 13 8l-3.5 3.5"/>',
  run: '<path d="M4.5 3v10l8-5z"/>',
  pin: '<path d="M9.8 2 14 6.2l-1.2.6-2.7 2.7-.3 3.1-5.4-5.4 3.1-.3 2.7-2.7zM6.6 9.4 2.5 13.5"/>',
};
const BUTTONS: [id: string, title: string][] = [
  ['out', 'Zoom out (-)'],
  ['in', 'Zoom in (+)'],
  ['fit', 'Show the whole graph (0)'],
  ['collapse', 'Close all modules'],
  ['expand', 'Open one more level of modules'],
  ['run', 'Run on the example inputs, to see the values of each node'],
];
const SWITCHES: [id: string, title: string][] = [
  ['parameters', 'Show parameters and buffers that are read directly'],
  ['direction', 'Draw from left to right'],
  ['pin', 'Keep showing this file'],
];

export function graphHtml(files: PageFiles): string {
  const icon = (id: string) =>
    `<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${ICONS[id]}</svg>`;
  const button = ([id, title]: string[]) => `<button id="${id}" title="${title}" aria-label="${title}">${icon(id)}</button>`;
  const toggle = ([id, title]: string[]) =>
    `<button id="${id}" title="${title}" aria-label="${title}" aria-pressed="false">${icon(id)}</button>`;
  return pageHtml(files, {
    title: 'FX Lens graph',
    attributes: ' data-state="empty"',
    // The layout engine is WebAssembly, compiled from bytes in the script itself.
    scripts: " 'wasm-unsafe-eval'",
    others: 'img-src data:',
    body: `<header>
<select id="targets" class="graph" title="Which model" aria-label="Which model"></select>
<span id="file" class="graph"></span><span id="stale" class="graph" role="status">updating…</span>
<span class="space"></span>
<button id="export" class="graph" title="Save the graph as SVG, PNG, DOT or JSON">Export…</button>
<div class="tools graph" role="toolbar" aria-label="Drawing">
<span class="search"><input id="search" type="text" placeholder="Search (/)" aria-label="Search nodes"><span id="hits" role="status"></span></span>
<select id="heat" title="Colour by" aria-label="Colour by"></select>
${BUTTONS.map(button).join('\n')}
${SWITCHES.map(toggle).join('\n')}
</div>
</header>
<p id="reason" role="status"></p>
<div id="stage">
<main id="canvas"></main>
<canvas id="map" class="graph" aria-hidden="true" title="The whole graph: click or drag to move" hidden></canvas>
<p id="legend" class="graph" role="status" hidden></p>
</div>
<div id="partial" role="note" hidden></div>
<dl id="details" aria-live="polite" hidden></dl>`,
  });
}
