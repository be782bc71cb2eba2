/** The status item: the server's state, the number of problems in the active file, and the captures' verdicts on the class at the cursor. */
import * as vscode from 'vscode';
import type { StatusParams } from '../protocol/lsp';
import { activeDocument, fileOf, notebookOf } from './code/addresses';

const SOURCE = 'fxlens';

export interface Appearance {
  text: string;
  tooltip: string;
  severity: 'none' | 'warning' | 'error';
}

/** The item's content for a server state and the numbers of problems and unjudged classes; independent of VS Code. */
export function appearance(status: StatusParams, problems: number, unjudged = 0): Appearance {
  const left = unjudged ? `${unjudged} ${unjudged === 1 ? 'class' : 'classes'} not judged` : '';
  const lines = [
    status.message,
    status.coverage ?? null,
    status.verdicts ? `${status.verdicts.model}: ${status.verdicts.full}` : null,
    problems ? `${problems} ${problems === 1 ? 'problem' : 'problems'} in this file` : null,
    status.torch ? `torch ${status.torch}` : null,
    status.interpreter ?? status.python,
  ].filter(Boolean);
  const tooltip = ['FX Lens', ...lines].join('\n\n');
  switch (status.state) {
    case 'starting':
      return { text: '$(loading~spin) FX Lens', tooltip, severity: 'none' };
    case 'busy':
      return { text: `$(loading~spin) FX Lens${problems ? ` ${problems}` : ''}`, tooltip, severity: 'none' };
    case 'untrusted':
      return { text: `$(shield) FX Lens${problems ? ` ${problems}` : ''}`, tooltip, severity: 'none' };
    case 'error':
      return { text: '$(error) FX Lens', tooltip, severity: 'error' };
    case 'ready': {
      const verdicts = status.verdicts ? ` · ${status.verdicts.short}` : '';
      return { text: ['$(type-hierarchy) FX Lens', problems ? ` ${problems}` : '', left && ` · ${left}`, verdicts].join(''), tooltip, severity: 'none' };
    }
  }
}

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('fxlens.status', vscode.StatusBarAlignment.Right, 100);
  private readonly subscriptions: vscode.Disposable[];
  private status: StatusParams = { state: 'starting', python: null, torch: null, message: null };

  constructor() {
    this.item.name = 'FX Lens';
    this.item.command = 'fxlens.showMenu';
    this.subscriptions = [
      this.item,
      vscode.languages.onDidChangeDiagnostics(() => this.render()),
      vscode.window.onDidChangeActiveTextEditor(() => this.render()),
      vscode.window.onDidChangeActiveNotebookEditor(() => this.render()),
      vscode.window.onDidChangeNotebookEditorSelection(() => this.render()),
    ];
    this.render();
  }

  get current(): StatusParams {
    return this.status;
  }

  set(status: StatusParams): void {
    this.status = status;
    this.render();
  }

  private render(): void {
    const document = activeDocument();
    const cells = document && notebookOf(document.uri)?.getCells().map(cell => cell.document.uri);
    if (document?.languageId !== 'python' && !cells && this.status.state !== 'error') {
      this.item.hide();
      return;
    }
    const diagnostics = (cells ?? (document ? [document.uri] : [])).flatMap(uri => vscode.languages.getDiagnostics(uri));
    const problems = diagnostics.filter(d => d.source === SOURCE && d.severity <= vscode.DiagnosticSeverity.Warning).length;
    const shown = appearance(this.status, problems, document ? this.unjudged(fileOf(document)) : 0);
    this.item.text = shown.text;
    this.item.tooltip = new vscode.MarkdownString(shown.tooltip, true);
    this.item.backgroundColor =
      shown.severity === 'none' ? undefined : new vscode.ThemeColor(`statusBarItem.${shown.severity}Background`);
    this.item.show();
  }

  private unjudged(uri: vscode.Uri): number {
    const found = Object.entries(this.status.unjudged ?? {}).find(([text]) => String(vscode.Uri.parse(text)) === String(uri));
    return found?.[1] ?? 0;
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }
}
