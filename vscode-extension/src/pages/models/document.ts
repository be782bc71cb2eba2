/** The document of the page with the table of models: fixed markup, and a policy that allows only its own two files. */
import type { PageFiles } from '../graph/document';

export function modelsHtml({ script, style, source, nonce }: PageFiles): string {
  const policy = ["default-src 'none'", `script-src 'nonce-${nonce}'`, `style-src ${source}`].join('; ');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>Models of this workspace</title>
<link rel="stylesheet" href="${style}">
</head>
<body>
<h1>Models of this workspace</h1>
<p class="state"><span id="state" role="status"></span> <button id="again" hidden>Check again</button><button id="cancel" hidden>Cancel</button></p>
<main></main>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
