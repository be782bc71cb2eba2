/** Shared by the documents of all pages: fixed markup without user text, and a policy that allows only their own files. */

export interface PageFiles {
  script: string;
  style: string;
  /** Where `style` comes from, for the content security policy. */
  source: string;
  nonce: string;
}

export interface Page {
  title: string;
  /** The content of `<body>`. */
  body: string;
  attributes?: string;
  /** What the policy allows besides the page's script and style. */
  scripts?: string;
  others?: string;
}

export function pageHtml({ script, style, source, nonce }: PageFiles, { title, body, attributes = '', scripts = '', others = '' }: Page): string {
  const policy = ["default-src 'none'", `script-src 'nonce-${nonce}'${scripts}`, `style-src ${source}`, ...(others ? [others] : [])].join('; ');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${title}</title>
<link rel="stylesheet" href="${style}">
</head>
<body${attributes}>
${body}
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
