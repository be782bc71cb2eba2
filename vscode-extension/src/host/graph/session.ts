/**
 * One graph on the screen: keeps a page up to date with a document, and the selections of both in step.
 * The webview may be in the side bar or in an editor.
 */
import * as vscode from 'vscode';
import { fileOf, sourceHere, sourceOf } from '../code/addresses';
import { GeneratedDocuments } from '../code/documents';
import { editorOfFile } from '../code/show';
import { NOT_RUNNING } from '../lacks';
import type { Lens } from '../lens';
import { graphHtml } from '../../pages/graph/document';
import { EXPORTS, type ExportFormat, type Options, type ToHost, type ToPage, isToHost } from '../../protocol/graph_page';
import * as protocol from '../../protocol/graph';
import { values } from '../../protocol/lowering';
import { showPage } from '../pages';
import { withProgress } from '../progress';
import { saved } from '../saved';
import { linesOf, nodesAt } from './places';
import { reveal } from './reveal';

const NO_FILE = 'Open a Python file or a notebook that defines a PyTorch module to see its graph.';

export class GraphSession implements vscode.Disposable {
  private readonly subscriptions: vscode.Disposable[] = [];
  private document: vscode.Uri | undefined;
  private options: Options = {};
  private places: Record<string, protocol.Place[]> = {};
  /** That of the drawn graph. */
  private trace: number | null = null;
  private pinned = false;
  private ready = false;
  private turn = 0;

  constructor(private readonly webview: vscode.Webview, private readonly lens: Lens, extension: vscode.Uri) {
    showPage(webview, extension, 'graph', graphHtml);
    this.subscriptions.push(
      webview.onDidReceiveMessage((message: unknown) => { if (isToHost(message)) void this.receive(message); }),
      vscode.window.onDidChangeActiveTextEditor(() => this.follow()),
      vscode.window.onDidChangeActiveNotebookEditor(() => this.follow()),
      vscode.window.onDidChangeTextEditorSelection(event => this.selected(event.textEditor)),
      vscode.workspace.onDidChangeTextDocument(event => {
        if (this.isShown(fileOf(event.document)) && event.contentChanges.length) this.post({ type: 'stale', stale: true });
      }),
      lens.onDidSelectNodes(({ source, names }) => { if (this.isShown(source)) this.post({ type: 'select', names }); }),
      lens.onDidChangeRecord(uri => { if (this.isShown(uri)) void this.refresh(true); }),
    );
  }

  /** Shows a document, optionally one of its targets. */
  async show(document: vscode.Uri, target?: string): Promise<void> {
    if (String(document) !== String(this.document) || target) this.options = { ...this.options, target, expanded: null };
    this.document = document;
    await this.refresh();
  }

  dispose(): void {
    this.turn++;
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private isShown(uri: vscode.Uri): boolean {
    return String(uri) === String(this.document);
  }

  private post(message: ToPage): void {
    if (this.ready) void this.webview.postMessage(message);
  }

  private follow(): void {
    const source = sourceHere();
    if (!this.pinned && source && !this.isShown(source)) void this.show(source);
  }

  /** Requests the drawing: with `now` the one that is known already; a notification comes when there is a newer one. */
  private async refresh(now = false): Promise<void> {
    if (!this.ready) return;
    const turn = ++this.turn;
    const document = this.document;
    if (!document) return this.post({ type: 'empty', reason: NO_FILE });
    const client = await this.lens.settled();
    if (turn !== this.turn) return;
    if (!client) return this.post({ type: 'empty', reason: NOT_RUNNING });
    const uri = client.code2ProtocolConverter.asUri(document);
    const answer = await client.sendRequest(protocol.graph, { uri, ...this.options, now });
    if (turn !== this.turn) return;
    if ('reason' in answer) {
      this.places = {};
      return this.post({ type: 'empty', reason: answer.reason });
    }
    this.places = answer.places;
    this.trace = answer.trace;
    // A named target stays selected: graphs captured by torch arrive after the model's own graph.
    this.options = { ...this.options, target: this.options.target ?? answer.view.target, expanded: this.options.expanded ?? null };
    this.post({ type: 'graph', view: answer.view, trace: answer.trace });
    const text = vscode.workspace.textDocuments.find(each => this.isShown(each.uri));
    if (text && answer.version !== null && answer.version < text.version) this.post({ type: 'stale', stale: true });
    const editor = editorOfFile(document);
    if (editor) this.selected(editor);
  }

  /** Marks the nodes of the lines at the user's cursor. */
  private selected(editor: vscode.TextEditor): void {
    const uri = String(editor.document.uri);
    const by = this.lens.selections.by(editor);
    // Follows selections by other views; those in generated texts arrive as nodes, see onDidSelectNodes.
    if (by === this || by instanceof GeneratedDocuments) return;
    const lines = linesOf(editor.selections);
    const names = nodesAt(this.places, text => String(vscode.Uri.parse(text)) === uri, lines);
    if (this.isShown(fileOf(editor.document)) || names.length) this.post({ type: 'select', names });
  }

  private async receive(message: ToHost): Promise<void> {
    switch (message.type) {
      case 'ready':
        this.ready = true;
        this.post({ type: 'pinned', pinned: this.pinned });
        this.document ??= sourceHere() ?? sourceOf(vscode.window.visibleTextEditors[0]?.document);
        await this.refresh();
        break;
      case 'options':
        this.options = { ...this.options, ...message.options };
        await this.refresh();
        break;
      case 'reveal':
        await reveal(this.lens, this, this.document, this.places, message.names, message.focus);
        break;
      case 'run':
        await this.run(message.target);
        break;
      case 'pin':
        this.pinned = message.pinned;
        this.post({ type: 'pinned', pinned: this.pinned });
        if (!this.pinned) this.follow();
        break;
      case 'export':
        await this.export();
        break;
      case 'exported':
        await this.save(message.format, message.data);
        break;
    }
  }

  /** Runs the model on its example inputs, and shows the range of each node's values. */
  private async run(target: string): Promise<void> {
    const client = await this.lens.requireClient();
    const { document } = this;
    if (!client || !document) return;
    const uri = client.code2ProtocolConverter.asUri(document);
    const answer = await withProgress(client, `Run ${target}`, (workDoneToken, cancel) =>
      client.sendRequest(values, { uri, target, options: {}, workDoneToken }, cancel));
    if (!answer || !this.isShown(document)) return;
    if ('reason' in answer) return void vscode.window.showErrorMessage(`FX Lens: ${answer.reason}`);
    if (answer.trace === null || answer.trace !== this.trace) {
      return void vscode.window.showInformationMessage(`FX Lens: the source, or a file that it uses, was edited while ${target} ran, so its values are not shown. Run it again.`);
    }
    this.post({ type: 'values', target, trace: answer.trace, ranges: answer.result.ranges, first: answer.result.first });
  }

  /** Asks for the file type; the page then makes the file, since it has the drawing. */
  private async export(): Promise<void> {
    const kinds = (Object.keys(EXPORTS) as ExportFormat[]).map(format => ({ format, label: format.toUpperCase(), description: EXPORTS[format] }));
    const kind = await vscode.window.showQuickPick(kinds, { title: `Export the graph of ${this.options.target ?? 'this model'}` });
    if (kind) this.post({ type: 'export', format: kind.format });
  }

  private async save(format: ExportFormat, data: string): Promise<void> {
    const name = `${this.options.target ?? 'graph'}.${format}`;
    const folder = this.document && vscode.workspace.getWorkspaceFolder(this.document)?.uri;
    const uri = await vscode.window.showSaveDialog({
      defaultUri: folder && vscode.Uri.joinPath(folder, name), filters: { [format.toUpperCase()]: [format] },
    });
    if (!uri) return;
    await vscode.workspace.fs.writeFile(uri, Buffer.from(data, format === 'png' ? 'base64' : 'utf8'));
    await saved(`The graph is saved in ${vscode.workspace.asRelativePath(uri)}.`, uri);
  }
}
