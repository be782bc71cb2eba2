/** Puts a page of this extension into a webview. */
import * as crypto from 'node:crypto';
import * as vscode from 'vscode';
import type { PageFiles } from '../pages/document';

/** Shows `dist/pages/<name>.page.js`; the webview may read nothing else. */
export function showPage(webview: vscode.Webview, extension: vscode.Uri, name: string, html: (files: PageFiles) => string): void {
  const folder = vscode.Uri.joinPath(extension, 'dist', 'pages');
  const file = (end: string) => String(webview.asWebviewUri(vscode.Uri.joinPath(folder, `${name}.page.${end}`)));
  webview.options = { enableScripts: true, localResourceRoots: [folder] };
  webview.html = html({ script: file('js'), style: file('css'), source: webview.cspSource, nonce: crypto.randomBytes(16).toString('base64') });
}
