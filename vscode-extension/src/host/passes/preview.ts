/**
 * Passes on a model: a diff of the generated forward before and after, with the numbers in its title. Buttons in the
 * title save the result as a function in the source, as a folder, or as an ONNX file.
 */
import * as vscode from 'vscode';
import { type Lens, openAgain } from '../lens';
import { type PassAnswer, type PassParams, type PassesAnswer, insertPass, pass, passes, savePass } from '../../protocol/passes';
import { activeSource } from '../code/addresses';
import { showText } from '../code/show';
import { withProgress } from '../progress';
import { saved } from '../saved';
import { numbers, summary } from './summary';

const SCHEME = 'fxlens-pass';

/** The choice, with a label for titles. */
interface Choice {
  passes: string[];
  old?: string;
  new?: string;
  label: string;
}

/** The subject of a diff. */
interface Preview {
  source: vscode.Uri;
  choice: Choice;
  answer: PassAnswer;
}

/** The target for saving or exporting the changed model. */
type Keep = Pick<PassParams, 'out' | 'onnx' | 'force'>;

export function registerPasses(lens: Lens): vscode.Disposable[] {
  const preview = new PassPreview(lens);
  return [
    preview,
    vscode.commands.registerCommand('fxlens.applyPass', (uri?: unknown, target?: unknown, name?: unknown) => preview.start(uri, target, name)),
    vscode.commands.registerCommand('fxlens.fuse', (uri?: unknown, target?: unknown) => preview.start(uri, target, 'fuse')),
    vscode.commands.registerCommand('fxlens.quantize', (uri?: unknown, target?: unknown) => preview.start(uri, target, 'quantize')),
    vscode.commands.registerCommand('fxlens.insertResult', () => preview.act((source, _, answer) => preview.insert(source, answer))),
    vscode.commands.registerCommand('fxlens.saveResult', () => preview.act((...shown) => preview.save(...shown))),
    vscode.commands.registerCommand('fxlens.exportResult', () => preview.act((...shown) => preview.export(...shown))),
  ];
}

class PassPreview implements vscode.Disposable {
  private readonly texts = new Map<string, string>();
  /** By the address of the text after the passes. */
  private readonly previews = new Map<string, Preview>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly lens: Lens) {
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, { provideTextDocumentContent: uri => this.texts.get(String(uri)) ?? '' }),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        this.texts.delete(String(uri));
        this.previews.delete(String(uri));
      }),
    ];
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  async start(uri: unknown, target: unknown, name: unknown): Promise<void> {
    const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
    if (!source) return;
    const model = typeof target === 'string' ? target : await this.lens.pickTarget(source);
    if (!model) return;
    const choice = await this.choose(source, model, typeof name === 'string' ? name : undefined);
    if (!choice) return;
    const answer = await this.run(source, model, choice);
    if (!answer) return;
    await this.showDiff({ source, choice, answer });
    void vscode.window.showInformationMessage(summary(answer));
  }

  /** Applies a function to the result of the active diff. */
  async act(run: (source: vscode.Uri, choice: Choice, answer: PassAnswer) => Promise<void>): Promise<void> {
    const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
    const shown = input instanceof vscode.TabInputTextDiff ? this.previews.get(String(input.modified)) : undefined;
    if (shown) await run(shown.source, shown.choice, shown.answer);
    else void vscode.window.showInformationMessage('Preview passes of a model first: the preview in front is the one that is kept.');
  }

  /** The passes: the named one, otherwise those that the user selects. */
  private async choose(source: vscode.Uri, model: string, name: string | undefined): Promise<Choice | undefined> {
    const offered = await this.offered(source, model);
    if (!offered) return undefined;
    const items = offered.passes.map(each => ({
      ...each, description: each.places ? `${each.places} ${each.places === 1 ? 'node' : 'nodes'}` : 'changes nothing in this model', picked: each.name === name,
    }));
    const chosen = name
      ? items.filter(each => each.name === name)
      : await vscode.window.showQuickPick(items, { title: `Passes on ${model}, applied in this order`, canPickMany: true, matchOnDetail: true });
    if (!chosen?.length) return undefined;
    const label = chosen.map(each => each.label.replace(/…$/, '')).join(', ');
    const choice: Choice = { passes: chosen.map(each => each.name), label };
    if (!choice.passes.includes('activation')) return choice;
    const swap = await this.chooseActivation(offered, model);
    return swap && { ...choice, ...swap, label: label.replace('Swap an activation', `${swap.old} to ${swap.new}`) };
  }

  private async chooseActivation({ activations }: PassesAnswer, model: string): Promise<{ old: string; new: string } | undefined> {
    const present = Object.keys(activations);
    if (!present.length) {
      void vscode.window.showInformationMessage(`${model} has no activation to swap.`);
      return undefined;
    }
    const old = present.length === 1 ? present[0] : await vscode.window.showQuickPick(present, { title: `Which activation of ${model}?` });
    const other = old && (await vscode.window.showQuickPick(activations[old], { title: `Swap ${old} of ${model} for…` }));
    return old && other ? { old, new: other } : undefined;
  }

  private async offered(source: vscode.Uri, target: string): Promise<PassesAnswer | undefined> {
    const client = await this.lens.requireClient();
    if (!client) return undefined;
    return unlessRefused(await client.sendRequest(passes, { uri: client.code2ProtocolConverter.asUri(source), target }));
  }

  private async run(source: vscode.Uri, target: string, choice: Choice, keep: Keep = {}): Promise<PassAnswer | undefined> {
    const client = await this.lens.requireClient();
    if (!client) return undefined;
    const { label, ...chosen } = choice;
    const params: PassParams = { uri: client.code2ProtocolConverter.asUri(source), target, ...chosen, ...keep };
    return unlessRefused(await withProgress(client, `${label}: ${target}`, (workDoneToken, cancel) =>
      client.sendRequest(pass, { ...params, workDoneToken }, cancel)));
  }

  /** Saves or exports the previewed result; if its process has ended, the passes run again. */
  private async keep(source: vscode.Uri, choice: Choice, answer: PassAnswer, keep: Keep): Promise<boolean> {
    const client = await this.lens.requireClient();
    if (!client) return false;
    const { kept, target } = answer;
    if (kept !== null) {
      const saved = unlessRefused(await withProgress(client, `Saving ${target}`, (workDoneToken, cancel) =>
        client.sendRequest(savePass, { kept, ...keep, workDoneToken }, cancel)));
      if (!saved) return false;
      if (saved.saved) return true;
    }
    return (await this.run(source, target, choice, keep)) !== undefined;
  }

  private async showDiff(preview: Preview): Promise<void> {
    const { answer, choice } = preview;
    const side = (which: 'before' | 'after') => {
      const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${answer.target}.${which}.py`, query: String(Date.now()) });
      this.texts.set(String(uri), answer[which]);
      return uri;
    };
    const [before, after] = [side('before'), side('after')];
    this.previews.set(String(after), preview);
    // Not a preview tab, which the next opened file would replace.
    await vscode.commands.executeCommand('vscode.diff', before, after, `${answer.target}: ${choice.label} (${numbers(answer)})`, { preview: false });
  }

  async insert(source: vscode.Uri, { construction, library, target }: PassAnswer): Promise<void> {
    const client = await this.lens.requireClient();
    if (!client) return;
    if (construction === null) {
      void vscode.window.showWarningMessage(`The source of ${target} has changed since the preview. Preview the passes again.`);
      return;
    }
    await openAgain(source);
    const params = { uri: client.code2ProtocolConverter.asUri(source), target, text: construction };
    const inserted = unlessRefused(await client.sendRequest(insertPass, params));
    if (!inserted) return;
    const editor = await showText(client.protocol2CodeConverter.asUri(inserted.uri), true);
    if (!editor) return;
    const line = editor.document.getText().split(/\r?\n/).findIndex((text, index) => index > inserted.line && /^def /.test(text));
    editor.selection = new vscode.Selection(line, 0, line, 0);
    editor.revealRange(new vscode.Range(line, 0, line + 8, 0), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    if (!library && construction.includes('import symbolic_trace')) void vscode.window.showInformationMessage('The inserted function imports fxlib, which your interpreter does not have. Install it with `pip install fxlens`.');
  }

  async save(source: vscode.Uri, choice: Choice, answer: PassAnswer): Promise<void> {
    const model = answer.target;
    const parent = await vscode.window.showOpenDialog({
      canSelectFiles: false, canSelectFolders: true, openLabel: 'Save Model Here', title: `Save ${model} in a new folder of…`,
      defaultUri: vscode.Uri.joinPath(source, '..'),
    });
    if (!parent?.[0]) return;
    const folder = vscode.Uri.joinPath(parent[0], `${model.toLowerCase()}_${choice.passes.includes('quantize') ? 'quantized' : 'fx'}`);
    if (!(await this.keep(source, choice, answer, { out: folder.fsPath }))) return;
    await saved(`${model} is saved in ${folder.fsPath}.`, vscode.Uri.joinPath(folder, 'module.py'));
  }

  async export(source: vscode.Uri, choice: Choice, answer: PassAnswer): Promise<void> {
    const model = answer.target;
    const file = await vscode.window.showSaveDialog({
      defaultUri: vscode.Uri.joinPath(source, '..', `${model}.onnx`), filters: { ONNX: ['onnx'] }, title: `Export ${model}`,
    });
    // The dialog has already asked whether to replace a file.
    if (file && (await this.keep(source, choice, answer, { onnx: file.fsPath, force: true }))) {
      await saved(`${model} is exported to ${file.fsPath}.`, file);
    }
  }
}

/** The answer; undefined if the user cancelled, or for a reason, which is then shown. */
function unlessRefused<T extends object>(answer: T | { reason: string } | undefined): T | undefined {
  if (!answer) return undefined;
  if (!('reason' in answer)) return answer;
  void vscode.window.showErrorMessage(answer.reason);
  return undefined;
}
