/** The state of the active extension: the client, its interpreter, the log and the status item. */
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { State } from 'vscode-languageclient';
import { cursorOf, tellCursor } from './cursor';
import { NOT_RUNNING, askForTrust } from './lacks';
import { createLogger } from './logger';
import { serverPython } from './python';
import { Selections } from './selections';
import { createClient } from './server';
import { StatusItem } from './status';
import * as protocol from '../protocol/lsp';
import { type RecordAnswer, record } from '../protocol/code';
import { recordChanged } from '../protocol/graph';

/** How long a server may take to end its workers. */
const STOP_MS = 10_000;
const NO_PYTHON = 'FX Lens found no Python 3.10 or newer to run its server.';

/** Reopens a file for the server that was closed during its start, such as a replaced preview. */
export async function openAgain(source: vscode.Uri): Promise<void> {
  if (String(source).endsWith('.ipynb')) return;
  await vscode.workspace.openTextDocument(source).then(undefined, () => undefined);  // it may have been deleted
}

export class Lens implements vscode.Disposable {
  readonly logger = createLogger();
  readonly status = new StatusItem();
  readonly version: string;
  /** The persistent state of this workspace. */
  readonly memory: vscode.Memento;
  client: LanguageClient | undefined;
  serverInterpreter: string | undefined;
  /** Starts and stops run one after the other: a restart during a start must not leave two servers. */
  private queue: Promise<void> = Promise.resolve();
  private readonly records = new vscode.EventEmitter<vscode.Uri>();
  /** Fires when a document has been traced again, so that its views are out of date. */
  readonly onDidChangeRecord = this.records.event;

  readonly selections = new Selections();

  private readonly picks = new vscode.EventEmitter<{ source: vscode.Uri; names: string[] }>();
  /** Fires when nodes are selected in a view that is neither the source nor the graph. */
  readonly onDidSelectNodes = this.picks.event;

  constructor(private readonly context: vscode.ExtensionContext) {
    this.memory = context.workspaceState;
    this.version = (context.extension.packageJSON as { version: string }).version;
  }

  /** Runs a module of the server's libraries in the server's interpreter. */
  get script(): string {
    return this.context.asAbsolutePath('bundled/serve.py');
  }

  start(): Promise<void> {
    return this.enqueue(() => this.doStart());
  }

  restart(): Promise<void> {
    return this.enqueue(async () => {
      await this.doStop();
      await this.doStart();
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.doStop());
  }

  /** The running client, after a pending start. */
  async settled(): Promise<LanguageClient | undefined> {
    await this.queue;
    return this.client?.isRunning() ? this.client : undefined;
  }

  /** The same; tells the user if there is none. */
  async requireClient(): Promise<LanguageClient | undefined> {
    const client = await this.settled();
    if (client) return client;
    const picked = await vscode.window.showErrorMessage(NOT_RUNNING, 'Restart', 'Show logs');
    if (picked === 'Restart') await this.restart();
    if (picked === 'Show logs') this.logger.show();
    return this.client?.isRunning() ? this.client : undefined;
  }

  selectNodes(source: vscode.Uri, names: string[]): void {
    this.picks.fire({ source, names });
  }

  /** The record of a file, with the class at the cursor now, which may have moved while the server started; undefined if none runs. */
  private async recordHere(source: vscode.Uri, running = this.requireClient()): Promise<RecordAnswer | null | undefined> {
    const here = cursorOf();
    const client = await running;
    if (!client) return undefined;
    await openAgain(source);
    tellCursor(this, here);
    const answer = await client.sendRequest(record, { uri: client.code2ProtocolConverter.asUri(source) });
    tellCursor(this);
    return answer;
  }

  /** The class at the cursor, if it has a graph and a server runs. */
  async targetHere(source: vscode.Uri): Promise<string | undefined> {
    const answer = await this.recordHere(source, this.settled());
    return answer?.record.targets.find(({ name, nodes }) => name === answer.cursor && nodes.length)?.name;
  }

  /**
   * The class at the cursor, otherwise one of the file, chosen by the user if there are several. `traced`: only
   * classes with a graph; `captured`: also their graphs from torch.export and torch.compile.
   */
  async pickTarget(source: vscode.Uri, { traced = true, captured = false } = {}): Promise<string | undefined> {
    const answer = await this.recordHere(source);
    if (answer === undefined) return undefined; // the user knows
    const able = (answer?.record.targets ?? []).filter(({ nodes }) => !traced || nodes.length);
    const here = able.filter(({ name }) => name === answer?.cursor);
    const names = (here.length ? here : able).flatMap(({ name, captures }) => [
      name, ...(captured ? captures.filter(each => each.graph).map(each => `${name} (torch.${each.capture})`) : []),
    ]);
    if (names.length > 1) return vscode.window.showQuickPick(names, { title: 'Which model?' });
    if (!names.length) void this.sayWhyNone(answer);
    return names[0];
  }

  private async sayWhyNone(answer: RecordAnswer | null): Promise<void> {
    const reasons = (answer?.record.targets ?? []).flatMap(({ name, reason }) => reason ? [`${name}: ${reason}`] : []);
    const none = reasons.length ? `No class of this file could be traced. ${reasons[0]}` : 'This file defines no nn.Module with a forward that FX Lens could trace. Its problems say why.';
    if (vscode.workspace.isTrusted) return void vscode.window.showInformationMessage(none);
    await askForTrust('so there is no trace of this file yet');
  }

  /** Makes the server request its settings again, including the interpreter. */
  async settingsChanged(): Promise<void> {
    await this.queue;
    if (this.client?.isRunning()) await this.client.sendNotification('workspace/didChangeConfiguration', { settings: null });
  }

  /** Handles new trust: the server may run the workspace's models, and an interpreter in the workspace may run the server. */
  async trustGranted(): Promise<void> {
    await this.queue;
    if (!this.client?.isRunning()) return this.start();
    await this.client.sendNotification(protocol.trusted, {});
    await this.settingsChanged();
  }

  dispose(): void {
    this.status.dispose();
    this.logger.dispose();
    this.records.dispose();
    this.picks.dispose();
    this.selections.dispose();
  }

  private enqueue(step: () => Promise<void>): Promise<void> {
    const result = this.queue.then(step);
    this.queue = result.catch(error => this.fail(String(error)));
    return this.queue;
  }

  private async doStart(): Promise<void> {
    if (this.client?.isRunning()) return;
    this.status.set({ state: 'starting', python: null, torch: null, message: null });
    const python = await serverPython(this.logger);
    this.serverInterpreter = python;
    if (!python) {
      this.fail(NO_PYTHON);
      // Commands do not wait until the message is read.
      void vscode.window.showErrorMessage(NO_PYTHON, 'Open settings').then(picked =>
        picked && vscode.commands.executeCommand('workbench.action.openSettings', 'fxlens.serverPython'));
      return;
    }
    const client = createClient(python, this.script, this.logger);
    this.client = client;
    this.logger.info(`Starting the server with ${python}`);
    client.onNotification(protocol.status, status => {
      if (status.state === 'error' && status.message) this.logger.error(status.message);
      this.status.set(status);
    });
    client.onNotification(recordChanged, ({ uri }) => this.records.fire(client.protocol2CodeConverter.asUri(uri)));
    client.onDidChangeState(({ newState }) => {
      if (this.client !== client) return;
      if (newState === State.Stopped) this.fail('The FX Lens server stopped.');
      if (newState === State.Running) this.greet(client).catch(error => this.logger.warn(`The server did not tell its status: ${String(error)}`));
    });
    await client.start();
  }

  /** What each server is asked and told, also one that the client has started in place of one that has crashed. */
  private async greet(client: LanguageClient): Promise<void> {
    tellCursor(this);
    this.status.set(await client.sendRequest(protocol.askStatus, {}));
  }

  private async doStop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose(STOP_MS);
    } catch (error) {
      // The client kills a server that does not end by itself; the next one starts regardless.
      this.logger.warn(`The server was stopped: ${String(error)}`);
    }
  }

  private fail(message: string): void {
    this.logger.error(message);
    this.status.set({ state: 'error', python: null, torch: null, message });
  }
}
