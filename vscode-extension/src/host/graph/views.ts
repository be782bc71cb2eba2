/** Where graphs are shown: the view in the side bar, and editors, which have more room. */
import * as vscode from 'vscode';
import { sourceHere } from '../code/addresses';
import type { Lens } from '../lens';
import { GraphSession } from './session';

const VIEW = 'fxlens.graph';

export function registerGraph(context: vscode.ExtensionContext, lens: Lens): vscode.Disposable[] {
  const view = new GraphViewProvider(lens, context.extensionUri);
  return [
    vscode.window.registerWebviewViewProvider(VIEW, view, { webviewOptions: { retainContextWhenHidden: true } }),
    vscode.commands.registerCommand('fxlens.showGraph', async (uri?: unknown, target?: unknown) => {
      const document = documentOf(uri);
      return document ? view.show(document, await targetOf(lens, document, target)) : vscode.commands.executeCommand(`${VIEW}.focus`);
    }),
    vscode.commands.registerCommand('fxlens.showGraphInEditor', async (uri?: unknown, target?: unknown) => {
      const document = documentOf(uri);
      return openInEditor(lens, context.extensionUri, document, document && await targetOf(lens, document, target));
    }),
  ];
}

/** The document of a command: its argument (a string from a CodeLens), otherwise the active editor's. */
function documentOf(uri: unknown): vscode.Uri | undefined {
  if (typeof uri === 'string') return vscode.Uri.parse(uri);
  if (uri instanceof vscode.Uri) return uri;
  return sourceHere();
}

/** The model of a command: its argument, otherwise the class at the cursor; for a file alone, the server chooses. */
async function targetOf(lens: Lens, document: vscode.Uri, target: unknown): Promise<string | undefined> {
  if (typeof target === 'string') return target;
  return lens.targetHere(document);
}

class GraphViewProvider implements vscode.WebviewViewProvider {
  private session: GraphSession | undefined;
  private waiting: { document: vscode.Uri; target?: string } | undefined;

  constructor(private readonly lens: Lens, private readonly extension: vscode.Uri) {}

  resolveWebviewView(view: vscode.WebviewView): void {
    const session = new GraphSession(view.webview, this.lens, this.extension);
    this.session = session;
    view.onDidDispose(() => {
      session.dispose();
      if (this.session === session) this.session = undefined;
    });
    if (this.waiting) void session.show(this.waiting.document, this.waiting.target);
    this.waiting = undefined;
  }

  async show(document: vscode.Uri, target?: string): Promise<void> {
    if (this.session) await this.session.show(document, target);
    else this.waiting = { document, target };
    await vscode.commands.executeCommand(`${VIEW}.focus`);
  }
}

async function openInEditor(lens: Lens, extension: vscode.Uri, document?: vscode.Uri, target?: string): Promise<void> {
  const panel = vscode.window.createWebviewPanel('fxlens.graphEditor', 'FX Lens Graph',
    { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true }, { retainContextWhenHidden: true });
  panel.iconPath = vscode.Uri.joinPath(extension, 'media', 'icon.svg');
  const session = new GraphSession(panel.webview, lens, extension);
  panel.onDidDispose(() => session.dispose());
  if (document) await session.show(document, target);
}
