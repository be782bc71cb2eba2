/**
 * Read-only documents made from a trace: the generated forward, the table of nodes, the graph as text. They follow
 * edits of their source, and selections are synchronized: lines of one are marked while the cursor is in the other.
 */
import * as vscode from 'vscode';
import { linesOf, nodesAt, placesIn } from '../graph/places';
import type { Lens } from '../lens';
import { type CodeAnswer, type View, code } from '../../protocol/code';
import { SCHEME, activeSource, addressOf, subjectOf } from './addresses';
import { editorOfFile } from './show';

export function registerCode(lens: Lens): vscode.Disposable[] {
  const documents = new GeneratedDocuments(lens);
  const open = (view: View) => (uri?: unknown, target?: unknown) => documents.open(view, uri, target);
  return [
    documents,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, documents),
    vscode.commands.registerCommand('fxlens.showCode', open('code')),
    vscode.commands.registerCommand('fxlens.showTable', open('table')),
    vscode.commands.registerCommand('fxlens.showGraphText', open('graph')),
  ];
}

export class GeneratedDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly answers = new Map<string, CodeAnswer>();
  private readonly mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('editor.selectionHighlightBackground'),
    overviewRulerColor: new vscode.ThemeColor('editorOverviewRuler.rangeHighlightForeground'),
    overviewRulerLane: vscode.OverviewRulerLane.Center,
  });
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly lens: Lens) {
    this.subscriptions = [
      this.changed, this.mark,
      lens.onDidChangeRecord(source => this.refresh(source)),
      vscode.workspace.onDidCloseTextDocument(document => this.answers.delete(String(document.uri))),
      vscode.window.onDidChangeTextEditorSelection(event => this.follow(event.textEditor)),
      vscode.window.onDidChangeActiveTextEditor(editor => { if (editor) this.follow(editor); }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => { if (document.uri.scheme === SCHEME) this.followSource(); }),
    ];
  }

  async open(view: View, uri: unknown, target: unknown): Promise<void> {
    const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
    if (!source) return;
    const name = typeof target === 'string' ? target : await this.lens.pickTarget(source, { captured: true });
    if (!name) return;
    const document = await vscode.workspace.openTextDocument(addressOf({ source, target: name, view }));
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true, preview: true });
    const editor = editorOfFile(source);
    if (editor) this.follow(editor);
  }

  async provideTextDocumentContent(address: vscode.Uri): Promise<string> {
    const { source, target, view } = subjectOf(address);
    const client = await this.lens.settled();
    if (!client) return '# The FX Lens server is not running.\n';
    // An open view shows what is known and is updated later; a new one waits for its first text.
    const now = this.answers.has(String(address));
    const answer = await client.sendRequest(code, { uri: client.code2ProtocolConverter.asUri(source), target, view, now });
    if ('reason' in answer) {
      this.answers.delete(String(address));
      return `# ${answer.reason}\n`;
    }
    this.answers.set(String(address), answer);
    return answer.text;
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  private refresh(source: vscode.Uri): void {
    for (const { uri } of vscode.workspace.textDocuments) {
      if (uri.scheme === SCHEME && String(subjectOf(uri).source) === String(source)) this.changed.fire(uri);
    }
  }

  /** Marks the counterparts of the selection of `editor` in other visible texts; in the source they are selected, too. */
  private follow(editor: vscode.TextEditor): void {
    const lines = linesOf(editor.selections);
    if (editor.document.uri.scheme === SCHEME) this.fromGenerated(editor, lines);
    else if (this.lens.selections.by(editor) !== this) this.fromSource(editor, lines);
  }

  /** Restores the marks for the cursor in the source after a text was replaced. */
  private followSource(): void {
    const editor = vscode.window.activeTextEditor;
    if (editor && editor.document.uri.scheme !== SCHEME) this.follow(editor);
  }

  private fromSource(editor: vscode.TextEditor, lines: { start: number; end: number }[]): void {
    editor.setDecorations(this.mark, []);
    const here = String(editor.document.uri);
    for (const other of vscode.window.visibleTextEditors) {
      const answer = this.answers.get(String(other.document.uri));
      if (!answer) continue;
      const names = nodesAt(answer.places, uri => String(vscode.Uri.parse(uri)) === here, lines);
      const marked = names.flatMap(name => (answer.lines[name] ? [lineRange(answer.lines[name])] : []));
      other.setDecorations(this.mark, marked);
      if (marked.length) other.revealRange(marked[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    }
  }

  private fromGenerated(editor: vscode.TextEditor, lines: { start: number; end: number }[]): void {
    editor.setDecorations(this.mark, []);
    const answer = this.answers.get(String(editor.document.uri));
    if (!answer) return;
    const names = Object.entries(answer.lines)
      .filter(([, [first, last]]) => lines.some(({ start, end }) => first <= end && start <= last))
      .map(([name]) => name);
    this.lens.selectNodes(subjectOf(editor.document.uri).source, names);
    for (const other of vscode.window.visibleTextEditors) {
      if (other.document.uri.scheme === SCHEME) continue;
      const found = placesIn(answer.places, names, this.lens.client?.code2ProtocolConverter.asUri(other.document.uri));
      const shown = found && String(vscode.Uri.parse(found.uri)) === String(other.document.uri) ? found.ranges : [];
      other.setDecorations(this.mark, shown.map(({ start, end }) => new vscode.Range(start.line, start.character, end.line, end.character)));
      if (shown.length) this.lens.selections.make(other, shown, this);
    }
  }
}

const lineRange = ([first, last]: [number, number]) => new vscode.Range(first, 0, last, 0);
