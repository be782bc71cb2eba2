/** The document of the page of results: fixed markup, and a policy that allows only its own two files. */
import type { PageFiles } from '../graph/document';

export function sheetHtml({ script, style, source, nonce }: PageFiles): string {
  const policy = ["default-src 'none'", `script-src 'nonce-${nonce}'`, `style-src ${source}`].join('; ');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>FX Lens results</title>
<link rel="stylesheet" href="${style}">
</head>
<body data-state="empty">
<header><h1 id="title"></h1><button id="cancel">Cancel</button><button id="again">Run again</button></header>
<section id="running"><div id="bar" role="progressbar" aria-valuemin="0" aria-valuemax="100"><div id="done"></div></div><p id="stage" role="status"></p></section>
<p id="reason" role="alert"></p>
<dl id="facts"></dl>
<div id="plot"></div>
<main id="tables"></main>
<details id="log"><summary>Build log</summary><pre id="text"></pre></details>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
