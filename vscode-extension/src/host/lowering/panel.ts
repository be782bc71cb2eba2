/** Jobs on models: a tab for each, which shows its progress and result, synchronized with the cursor in the source. */
import * as vscode from 'vscode';
import { type LanguageClient } from 'vscode-languageclient/node';
import { WorkDoneProgress } from 'vscode-languageclient';
import { showPage } from '../pages';
import { progressToken } from '../progress';
import { editorOfFile } from '../code/show';
import { type Edit, linesOf, moved, nodesAt } from '../graph/places';
import { reveal } from '../graph/reveal';
import type { Lens } from '../lens';
import { sheetHtml } from '../../pages/sheet/document';
import type { Answer, JobParams } from '../../protocol/lowering';
import type { Place } from '../../protocol/graph';
import { type FromSheet, type Sheet, type ToSheet, isFromSheet } from '../../protocol/sheet_page';

/** A job: its request, and how to show its answer. */
export interface Job {
  title: string;
  source: vscode.Uri;
  target: string;
  options: Record<string, unknown>;
  send(client: LanguageClient, params: JobParams, cancel: vscode.CancellationToken): Promise<Answer<unknown>>;
  sheet(result: unknown): Sheet;
  /** The options of a choice or an action on the page. */
  chosen?(name: string, value: string): Record<string, unknown>;
}

/** All tabs. One job runs at a time, since two would distort each other's times. */
export class JobTabs implements vscode.Disposable {
  private readonly tabs = new Set<JobTab>();

  constructor(private readonly lens: Lens, private readonly extension: vscode.Uri) {}

  /** Runs a job in its own tab; if one is already running, asks what to do. */
  async run(job: Job): Promise<void> {
    const running = [...this.tabs].find(tab => tab.runs);
    if (running) {
      const stop = 'Cancel It';
      const picked = await vscode.window.showWarningMessage(`${running.title} is still running. ${job.title} can start when it has finished.`, stop);
      if (picked !== stop) return;
      await running.stop();
    }
    const tab = new JobTab(this.lens, this.extension, () => this.tabs.delete(tab), job);
    this.tabs.add(tab);
    await tab.run();
  }

  dispose(): void {
    for (const tab of this.tabs) tab.dispose();
  }
}

class JobTab implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private readonly subscriptions: vscode.Disposable[];
  private running: Promise<void> = Promise.resolve();
  private places: Record<string, Place[]> = {};
  /** What was edited while the job ran, in order: its answer is about the text before. */
  private edits: { uri: string; changes: readonly Edit[] }[] = [];
  private cancel: vscode.CancellationTokenSource | undefined;
  private ready = false;
  /** The messages for a page that loads late. */
  private last: ToSheet | undefined;

  constructor(private readonly lens: Lens, private readonly extension: vscode.Uri, private readonly closed: () => void, private readonly job: Job) {
    this.subscriptions = [
      vscode.window.onDidChangeTextEditorSelection(event => this.follow(event.textEditor)),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => this.edited(String(document.uri), contentChanges)),
      lens.onDidSelectNodes(({ source, names }) => { if (String(source) === String(this.job.source)) this.post({ type: 'select', names }); }),
    ];
  }

  get title(): string {
    return this.job.title;
  }

  get runs(): boolean {
    return this.cancel !== undefined;
  }

  /** Cancels the job; resolves once the server knows. */
  async stop(): Promise<void> {
    this.cancel?.cancel();
    await this.running;
  }

  run(): Promise<void> {
    return this.running = this.start();
  }

  private async start(): Promise<void> {
    const { job } = this;
    const client = await this.lens.requireClient();
    if (!client) return this.panel ? undefined : this.dispose();
    const cancel = new vscode.CancellationTokenSource();
    this.cancel = cancel;
    this.places = {};
    this.show(job.title);
    this.state({ type: 'running', title: job.title, text: 'starting', percent: 0 });
    const workDoneToken = progressToken();
    const listening = client.onProgress(WorkDoneProgress.type, workDoneToken, value => {
      if (value.kind === 'report' && this.cancel === cancel) {
        this.state({ type: 'running', title: job.title, text: value.message ?? '', percent: value.percentage ?? 0 });
      }
    });
    const uri = client.code2ProtocolConverter.asUri(job.source);
    try {
      this.edits = [];
      const answer = await job.send(client, { uri, target: job.target, options: job.options, workDoneToken }, cancel.token);
      if (this.cancel !== cancel) return;
      if ('reason' in answer) return this.state({ type: 'failed', title: job.title, reason: answer.reason });
      this.places = answer.places;
      for (const { uri, changes } of this.edits) this.move(uri, changes);
      this.state({ type: 'sheet', sheet: job.sheet(answer.result) });
      const editor = editorOfFile(job.source);
      if (editor) this.follow(editor);
    } catch (error) {
      if (this.cancel !== cancel) return;
      const reason = cancel.token.isCancellationRequested ? 'Cancelled.' : String((error as Error).message ?? error);
      this.state({ type: 'failed', title: job.title, reason });
    } finally {
      listening.dispose();
      if (this.cancel === cancel) this.cancel = undefined;
      cancel.dispose();
    }
  }

  dispose(): void {
    this.cancel?.cancel();
    for (const subscription of this.subscriptions) subscription.dispose();
    this.panel?.dispose();
    this.closed();
  }

  private show(title: string): void {
    if (this.panel) return this.panel.reveal(undefined, true);
    const panel = vscode.window.createWebviewPanel('fxlens.lowering', title,
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { retainContextWhenHidden: true });
    panel.iconPath = vscode.Uri.joinPath(this.extension, 'media', 'icon.svg');
    this.panel = panel;
    this.ready = false;
    panel.webview.onDidReceiveMessage((message: unknown) => { if (isFromSheet(message)) void this.receive(message); });
    panel.onDidDispose(() => {
      this.panel = undefined;
      this.dispose();
    });
    showPage(panel.webview, this.extension, 'sheet', sheetHtml);
  }

  private state(message: ToSheet): void {
    this.last = message;
    this.post(message);
  }

  private post(message: ToSheet): void {
    if (this.ready) void this.panel?.webview.postMessage(message);
  }

  private async receive(message: FromSheet): Promise<void> {
    switch (message.type) {
      case 'ready':
        this.ready = true;
        if (this.last) this.post(this.last);
        break;
      case 'cancel':
        this.cancel?.cancel();
        break;
      case 'again':
        if (!this.runs) await this.run();
        break;
      case 'choose':
        if (this.runs || !this.job.chosen) break;
        this.job.options = { ...this.job.options, ...this.job.chosen(message.name, message.value) };
        await this.run();
        break;
      case 'reveal':
        await reveal(this.lens, this, this.job.source, this.places, message.names, message.focus);
        break;
    }
  }

  private edited(uri: string, changes: readonly Edit[]): void {
    if (this.runs) this.edits.push({ uri, changes });
    else this.move(uri, changes);
  }

  /** Keeps the places at the code that the rows are about. */
  private move(uri: string, changes: readonly Edit[]): void {
    this.places = moved(this.places, text => String(vscode.Uri.parse(text)) === uri, changes);
  }

  /** Marks the rows of the lines at the user's cursor. */
  private follow(editor: vscode.TextEditor): void {
    const uri = String(editor.document.uri);
    if (editor.document.languageId !== 'python' || this.lens.selections.by(editor) === this) return;
    const lines = linesOf(editor.selections);
    this.post({ type: 'select', names: nodesAt(this.places, text => String(vscode.Uri.parse(text)) === uri, lines) });
  }
}
