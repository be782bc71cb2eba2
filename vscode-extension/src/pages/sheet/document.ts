/** The document of the page of results. */
import { type PageFiles, pageHtml } from '../document';

const BODY = `<header><h1 id="title"></h1><button id="cancel">Cancel</button><button id="again">Run again</button></header>
<div id="choices"></div>
<section id="running"><div id="bar" role="progressbar" aria-valuemin="0" aria-valuemax="100"><div id="done"></div></div><p id="stage" role="status"></p></section>
<p id="reason" role="alert"></p>
<dl id="facts"></dl>
<div id="plot"></div>
<main id="tables"></main>
<details id="log"><summary>Build log</summary><pre id="text"></pre></details>`;

export function sheetHtml(files: PageFiles): string {
  return pageHtml(files, { title: 'FX Lens results', body: BODY, attributes: ' data-state="empty"' });
}
