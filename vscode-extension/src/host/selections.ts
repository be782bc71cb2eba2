/** Tells whether the user or a view made an editor's selection, so that a view does not react to its own. */
import * as vscode from 'vscode';
import type { Range } from 'vscode-languageclient';

/** How long VS Code may take to report a selection that a view made. */
const ECHO_MS = 10_000;

type Selected = readonly vscode.Selection[];

export class Selections implements vscode.Disposable {
  /** The view that made each editor's selection, if any. */
  private readonly made = new WeakMap<vscode.TextEditor, { key: string; by: object }>();
  /** Selections by views that VS Code has not reported yet. It reports each in turn, even one that was already replaced. */
  private expected: { editor: vscode.TextEditor; key: string; by: object; at: number }[] = [];
  private readonly subscription: vscode.Disposable;

  /** Constructed before anything else listens to selections, so that `by` is up to date in every such listener. */
  constructor() {
    this.subscription = vscode.window.onDidChangeTextEditorSelection(event => this.reported(event));
  }

  /** Selects ranges for a view. */
  make(editor: vscode.TextEditor, ranges: Range[], by: object): void {
    const before = keyOf(editor.selections);
    editor.selections = ranges.map(({ start, end }) => new vscode.Selection(start.line, start.character, end.line, end.character));
    editor.revealRange(editor.selections[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    const key = keyOf(editor.selections);
    this.made.set(editor, { key, by });
    const now = Date.now();
    this.expected = this.expected.filter(each => now - each.at < ECHO_MS);
    if (key !== before) this.expected.push({ editor, key, by, at: now }); // VS Code does not report an unchanged selection
  }

  /** The view that made the current selection of this editor; undefined if the user did. */
  by(editor: vscode.TextEditor): object | undefined {
    const made = this.made.get(editor);
    return made?.key === keyOf(editor.selections) ? made.by : undefined;
  }

  dispose(): void {
    this.subscription.dispose();
  }

  private reported({ textEditor, selections, kind }: { textEditor: vscode.TextEditor; selections: Selected; kind?: vscode.TextEditorSelectionChangeKind }): void {
    const key = keyOf(selections);
    const byHand = kind === vscode.TextEditorSelectionChangeKind.Mouse || kind === vscode.TextEditorSelectionChangeKind.Keyboard;
    const echo = byHand ? undefined : this.expected.find(each => each.editor === textEditor && each.key === key);
    if (!echo) {
      this.made.delete(textEditor);
      return;
    }
    // Each is reported once, in order: the same selection made later is the user's.
    const at = this.expected.indexOf(echo);
    this.expected = this.expected.filter((each, index) => each.editor !== textEditor || index > at);
    this.made.set(textEditor, { key, by: echo.by });
  }
}

const keyOf = (selections: Selected) =>
  selections.map(({ start, end }) => `${start.line}:${start.character}-${end.line}:${end.character}`).join(',');
