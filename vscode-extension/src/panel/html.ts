/** The document of the graph's page: fixed markup, no word of the user's in it, and a policy that allows only its own two files. */

export interface PageFiles {
  script: string;
  style: string;
  /** Where `style` comes from, for the content security policy. */
  source: string;
  nonce: string;
}

const BUTTONS: [id: string, label: string, title: string][] = [
  ['out', '−', 'Zoom out (-)'],
  ['in', '+', 'Zoom in (+)'],
  ['fit', 'Fit', 'Show the whole graph (0)'],
  ['collapse', '⊟', 'Close all modules'],
  ['expand', '⊞', 'Open one level more'],
];
const SWITCHES: [id: string, label: string, title: string][] = [
  ['parameters', 'Params', 'Show parameters and buffers that are read directly'],
  ['direction', '→', 'Draw from left to right'],
  ['pin', 'Pin', 'Stay with this file'],
];

export function graphHtml({ script, style, source, nonce }: PageFiles): string {
  const policy = [
    "default-src 'none'",
    // The layout engine is WebAssembly, compiled from bytes in the script itself.
    `script-src 'nonce-${nonce}' 'wasm-unsafe-eval'`,
    `style-src ${source}`,
    'img-src data:',
  ].join('; ');
  const button = ([id, label, title]: string[]) =>
    `<button id="${id}" class="graph" title="${title}" aria-label="${title}">${label}</button>`;
  const toggle = ([id, label, title]: string[]) =>
    `<button id="${id}" class="graph" title="${title}" aria-label="${title}" aria-pressed="false">${label}</button>`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>FX Lens graph</title>
<link rel="stylesheet" href="${style}">
</head>
<body data-state="empty">
<header>
<select id="targets" class="graph" title="Which model" aria-label="Which model"></select>
<span id="file" class="graph"></span><span id="stale" role="status">updating…</span>
<span class="search graph"><input id="search" type="text" placeholder="Search (/)" aria-label="Search nodes"><span id="hits" role="status"></span></span>
<span class="space"></span>
${BUTTONS.map(button).join('\n')}
${SWITCHES.map(toggle).join('\n')}
<select id="export" class="graph" title="Export" aria-label="Export"><option value="">Export…</option><option value="svg">SVG</option><option value="png">PNG</option><option value="dot">DOT</option><option value="json">JSON</option></select>
</header>
<p id="reason" role="status"></p>
<main id="canvas"></main>
<div id="partial" role="note" hidden></div>
<dl id="details" aria-live="polite" hidden></dl>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
