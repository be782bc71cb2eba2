/**
 * Fix all of a notebook on saving: VS Code requests it for the first cell only. If that is Markdown, which the server
 * does not see, the request is made for the first Python cell.
 */
import * as vscode from 'vscode';
import { CodeActionRequest } from 'vscode-languageclient';
import { notebookOf } from './code/addresses';
import type { Lens } from './lens';

const FIX_ALL = vscode.CodeActionKind.Empty.append('notebook.source.fixAll.fxlens');

export function registerNotebooks(lens: Pick<Lens, 'client'>): vscode.Disposable {
  return vscode.languages.registerCodeActionsProvider({ notebookType: '*' }, {
    async provideCodeActions(asked, range, context, token) {
      const client = lens.client?.isRunning() ? lens.client : undefined;
      if (!client || asked.languageId === 'python' || !context.only?.contains(FIX_ALL)) return undefined;
      const cell = notebookOf(asked.uri)?.getCells().find(({ document }) => document.languageId === 'python')?.document;
      if (!cell) return undefined;
      const found = await client.sendRequest(CodeActionRequest.type, {
        textDocument: client.code2ProtocolConverter.asTextDocumentIdentifier(cell),
        range: client.code2ProtocolConverter.asRange(new vscode.Range(0, 0, 0, 0)),
        context: { diagnostics: [], only: [FIX_ALL.value] },
      }, token);
      return client.protocol2CodeConverter.asCodeActionResult(found ?? [], token);
    },
  }, { providedCodeActionKinds: [FIX_ALL] });
}
