/** A stand-in for the `vscode` module: the parts the extension uses, with a state that tests set. */
import { vi } from 'vitest';

class Emitter<T> {
  private listeners = new Set<(event: T) => unknown>();
  event = (listener: (event: T) => unknown) => {
    this.listeners.add(listener);
    return new Disposable(() => this.listeners.delete(listener));
  };
  async fire(event: T) {
    for (const listener of this.listeners) await listener(event);
  }
  dispose() {
    this.listeners.clear();
  }
}

export class Disposable {
  constructor(private readonly end: () => unknown) {}
  dispose() {
    this.end();
  }
}

export const EventEmitter = Emitter;
export const OverviewRulerLane = { Center: 2 };
export const ProgressLocation = { Notification: 15 };
export class TabInputTextDiff {
  constructor(readonly original: unknown, readonly modified: unknown) {}
}
export const ViewColumn = { One: 1, Beside: -2 };
export const ConfigurationTarget = { Global: 1, Workspace: 2, WorkspaceFolder: 3 };
export const TaskScope = { Global: 1, Workspace: 2 };
export const StatusBarAlignment = { Left: 1, Right: 2 };
export const TextEditorSelectionChangeKind = { Keyboard: 1, Mouse: 2, Command: 3 };
export const TextEditorRevealType = { InCenterIfOutsideViewport: 2 };
export class Selection {
  readonly start: { line: number; character: number };
  readonly end: { line: number; character: number };
  constructor(line: number, character: number, endLine: number, endCharacter: number) {
    this.start = { line, character };
    this.end = { line: endLine, character: endCharacter };
  }
}
export const DiagnosticSeverity = { Error: 0, Warning: 1, Information: 2, Hint: 3 };
export class CancellationTokenSource {
  token = { isCancellationRequested: false };
  cancel() { this.token.isCancellationRequested = true; }
  dispose() {}
}
export class ThemeColor {
  constructor(readonly id: string) {}
}
export class MarkdownString {
  constructor(readonly value: string) {}
}
export const Uri = {
  from: ({ scheme, path, query }: Record<string, string>) => Uri.parse(`${scheme}:${path}?${query}`),
  parse: (text: string) => ({ fsPath: text.replace(/^file:\/\//, ''), toString: () => text }),
  joinPath: (...parts: unknown[]) => parts.join('/'),
  file: (fsPath: string) => ({ fsPath, toString: () => `file://${fsPath}` }),
};

export const state = {
  trusted: true,
  settings: {} as Record<string, unknown>,
  folders: [] as { uri: { fsPath: string } }[],
  extensions: {} as Record<string, unknown>,
  commands: new Map<string, (...args: any[]) => any>(),
  views: new Map<string, any>(),
  grant: new Emitter<void>(),
  selection: new Emitter<any>(),
  edit: new Emitter<any>(),
  /** What the last panel got, and how it answers. */
  posted: [] as any[],
  say: (_: unknown): unknown => undefined,
  setInWorkspace: {} as Record<string, unknown>,
  configuration: new Emitter<{ affectsConfiguration(key: string): boolean }>(),
  item: { text: '', tooltip: undefined as unknown, show: vi.fn(), hide: vi.fn(), dispose: vi.fn() } as any,
  activeDocument: undefined as any,
  activeNotebook: undefined as any,
  selectedCell: 0,
  cellSelection: new Emitter<void>(),
  diagnostics: [] as any[],
  updatedIn: 0,
  reset() {
    Object.assign(state, { trusted: true, settings: {}, setInWorkspace: {}, posted: [], folders: [], extensions: {}, activeDocument: undefined, activeNotebook: undefined, diagnostics: [] });
    state.commands.clear();
    state.views.clear();
    state.grant.dispose();
    state.configuration.dispose();
    state.selection.dispose();
    state.edit.dispose();
  },
};

/** As in VS Code 1.95; older ones have none of the three. */
export const lm = {
  tools: new Map<string, any>(),
  registerTool: undefined as ((name: string, tool: any) => Disposable) | undefined,
};
export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}
export class LanguageModelToolResult {
  constructor(readonly content: unknown[]) {}
}

const nothing = () => new Disposable(() => {});
export const version = '1.91.0';
export const env = { appHost: 'test' };
export const extensions = { getExtension: (id: string) => state.extensions[id] };
export const commands = {
  registerCommand: (name: string, run: (...args: any[]) => any) => {
    state.commands.set(name, run);
    return new Disposable(() => state.commands.delete(name));
  },
  executeCommand: vi.fn(),
};
export const languages = { onDidChangeDiagnostics: nothing, getDiagnostics: () => state.diagnostics, registerCodeActionsProvider: nothing };
export const CodeActionKind = { Empty: { append: (value: string) => ({ value }) } };
export const window = {
  createOutputChannel: () => ({ info: vi.fn(), warn: vi.fn(), error: vi.fn(), show: vi.fn(), dispose: vi.fn() }),
  createStatusBarItem: () => state.item,
  get activeTextEditor() {
    return state.activeDocument && { document: state.activeDocument, selection: { active: { line: 0, character: 0 } } };
  },
  get activeNotebookEditor() {
    return state.activeNotebook && { notebook: state.activeNotebook, selection: { start: state.selectedCell } };
  },
  onDidChangeActiveTextEditor: nothing,
  onDidChangeTextEditorSelection: state.selection.event,
  onDidChangeActiveNotebookEditor: nothing,
  onDidChangeNotebookEditorSelection: state.cellSelection.event,
  visibleTextEditors: [] as any[],
  createTextEditorDecorationType: () => new Disposable(() => {}),
  tabGroups: { activeTabGroup: { activeTab: undefined as { input: unknown } | undefined } },
  withProgress: async (_: unknown, task: (progress: unknown, cancel: unknown) => unknown) => task({ report() {} }, { onCancellationRequested: nothing }),
  showErrorMessage: vi.fn(async () => undefined),
  showInformationMessage: vi.fn(async () => undefined),
  showQuickPick: vi.fn(async () => undefined),
  showTextDocument: vi.fn(),
  createWebviewPanel: () => ({
    webview: {
      postMessage: (message: unknown) => state.posted.push(message),
      onDidReceiveMessage: (listener: (message: unknown) => unknown) => { state.say = listener; },
    },
    onDidDispose: () => {}, reveal: () => {}, dispose: () => {},
  }),
  registerWebviewViewProvider: (id: string, provider: any) => {
    state.views.set(id, provider);
    return new Disposable(() => state.views.delete(id));
  },
};
export const workspace = {
  get isTrusted() {
    return state.trusted;
  },
  get workspaceFolders() {
    return state.folders.length ? state.folders : undefined;
  },
  getWorkspaceFolder: (uri: { fsPath: string }) => state.folders.find(folder => uri.fsPath.startsWith(folder.uri.fsPath)),
  getConfiguration: (section: string) => ({
    get: (key: string, otherwise: unknown) => state.settings[`${section}.${key}`] ?? otherwise,
    inspect: (key: string) => ({ workspaceValue: state.setInWorkspace[`${section}.${key}`] }),
    update: async (key: string, value: unknown, where: number) => {
      state.settings[`${section}.${key}`] = value;
      state.updatedIn = where;
    },
  }),
  textDocuments: [] as any[],
  get notebookDocuments() {
    return state.activeNotebook ? [state.activeNotebook] : [];
  },
  onDidCloseTextDocument: nothing,
  onDidChangeTextDocument: state.edit.event,
  registerTextDocumentContentProvider: nothing,
  onDidGrantWorkspaceTrust: state.grant.event,
  onDidChangeConfiguration: state.configuration.event,
  openTextDocument: vi.fn(async (options: any): Promise<any> => options),
};
export class ProcessExecution {
  constructor(readonly process: string, readonly args: string[], readonly options: { cwd: string }) {}
}
export class Task {
  constructor(readonly definition: unknown, readonly scope: unknown, readonly name: string, readonly source: string, readonly execution: ProcessExecution) {}
}
export const tasks = {
  executed: [] as Task[],
  ended: new Emitter<any>(),
  executeTask: async (task: Task) => (tasks.executed.push(task), task),
  onDidEndTaskProcess: (listener: (event: any) => unknown) => tasks.ended.event(listener),
};
