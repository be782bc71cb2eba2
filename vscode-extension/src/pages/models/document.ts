/** The document of the page with the table of models. */
import { type PageFiles, pageHtml } from '../document';

const BODY = `<h1>Models of this workspace</h1>
<p class="state"><span id="state" role="status"></span> <button id="again" hidden>Check again</button><button id="cancel" hidden>Cancel</button></p>
<main></main>`;

export function modelsHtml(files: PageFiles): string {
  return pageHtml(files, { title: 'Models of this workspace', body: BODY });
}
