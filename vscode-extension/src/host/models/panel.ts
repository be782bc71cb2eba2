/** The table of all models of the workspace: a tab that fills while the server checks the files. */
import * as vscode from 'vscode';
import { modelsHtml } from '../../pages/models/document';
import { models, modelsPart } from '../../protocol/models';
import { type FromModels, type ToModels, isFromModels } from '../../protocol/models_page';
import { showText } from '../code/show';
import { NOT_RUNNING } from '../lacks';
import type { Lens } from '../lens';
import { showPage } from '../pages';
import { progressToken } from '../progress';

export function registerModels(context: vscode.ExtensionContext, lens: Lens): vscode.Disposable[] {
  const tab = new ModelsTab(lens, context.extensionUri);
  return [tab, vscode.commands.registerCommand('fxlens.showModels', () => tab.show())];
}

class ModelsTab implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private cancel: vscode.CancellationTokenSource | undefined;

  constructor(private readonly lens: Lens, private readonly extension: vscode.Uri) {}

  show(): void {
    if (this.panel) return this.panel.reveal();
    const panel = vscode.window.createWebviewPanel('fxlens.models', 'Models of This Workspace', vscode.ViewColumn.Active,
      { retainContextWhenHidden: true });
    panel.iconPath = vscode.Uri.joinPath(this.extension, 'media', 'icon.svg');
    this.panel = panel;
    panel.webview.onDidReceiveMessage((message: unknown) => { if (isFromModels(message)) void this.receive(message); });
    panel.onDidDispose(() => {
      this.panel = undefined;
      this.cancel?.cancel();
    });
    showPage(panel.webview, this.extension, 'models', modelsHtml);
  }

  dispose(): void {
    this.panel?.dispose();
  }

  private async receive(message: FromModels): Promise<void> {
    switch (message.type) {
      case 'ready':
      case 'again':
        return this.check();
      case 'cancel':
        return this.cancel?.cancel();
      case 'open':
        return this.open(message);
      case 'graph': {
        // Only open documents are traced.
        await this.open({ uri: message.uri, cell: null, line: 0, character: 0 }, true);
        await vscode.commands.executeCommand('fxlens.showGraph', message.uri, message.name);
      }
    }
  }

  private async check(): Promise<void> {
    const { panel } = this;
    if (!panel) return;
    this.cancel?.cancel();
    const cancel = this.cancel = new vscode.CancellationTokenSource();
    const post = (message: ToModels) => { if (this.cancel === cancel) void panel.webview.postMessage(message); };
    post({ type: 'begin' });
    let client = await this.lens.settled();
    if (!client) {
      post({ type: 'failed', reason: NOT_RUNNING });
      client = await this.lens.requireClient();
      if (!client) return;
      post({ type: 'begin' });
    }
    const partialResultToken = progressToken();
    const listening = client.onProgress(modelsPart, partialResultToken, part => post({ type: 'part', ...part }));
    try {
      const answer = await client.sendRequest(models, { partialResultToken }, cancel.token);
      post('reason' in answer ? { type: 'failed', reason: answer.reason } : { type: 'end', notes: answer.notes });
    } catch (error) {
      post({ type: 'failed', reason: cancel.token.isCancellationRequested ? 'Cancelled.' : String((error as Error).message ?? error) });
    } finally {
      listening.dispose();
      cancel.dispose();
    }
  }

  /** Beside the table if there already is an editor, otherwise over it. */
  private async open({ uri: address, cell, line, character }: Omit<Extract<FromModels, { type: 'open' }>, 'type'>, quiet = false): Promise<void> {
    const uri = this.lens.client?.protocol2CodeConverter.asUri(address) ?? vscode.Uri.parse(address);
    const others = [...vscode.window.visibleTextEditors, ...vscode.window.visibleNotebookEditors];
    const beside = others.find(each => each.viewColumn !== this.panel?.viewColumn);
    const at = new vscode.Position(line, character);
    const shown = { viewColumn: beside?.viewColumn ?? vscode.ViewColumn.Beside, preserveFocus: quiet, preview: true };
    if (!uri.path.endsWith('.ipynb')) {
      await vscode.window.showTextDocument(uri, { ...shown, ...(quiet ? {} : { selection: new vscode.Range(at, at) }) });
      return;
    }
    const notebook = await vscode.workspace.openNotebookDocument(uri);
    await vscode.window.showNotebookDocument(notebook, shown);
    if (cell === null || cell > notebook.cellCount) return;
    const editor = await showText(notebook.cellAt(cell - 1).document.uri, true);
    if (!editor) return;
    editor.selection = new vscode.Selection(at, at);
    editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}
