/** Example inputs, stored where every reader of the model sees them: in a comment on its class. */
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { type InputsAnswer, inputs, tryInputs } from '../protocol/inputs';
import { activeSource } from './code/addresses';
import type { Lens } from './lens';

const PAUSE_MS = 400;
const MOST_KEPT = 20;

/** Asks for the construction and the inputs of a model, and writes them into the comment above its class. */
export async function editInputs(lens: Lens, uri: unknown, target: unknown): Promise<void> {
  const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
  if (!source) return;
  const name = typeof target === 'string' ? target : await lens.pickTarget(source, { traced: false });
  const client = name ? await lens.requireClient() : undefined;
  if (!name || !client) return;
  const params = { uri: client.code2ProtocolConverter.asUri(source), target: name };
  const known = await client.sendRequest(inputs, params);
  if ('reason' in known) return void vscode.window.showErrorMessage(known.reason);
  const key = `inputs of ${name}`;
  const earlier = lens.memory.get<string[]>(key, []);
  const text = await ask(client, params, known, earlier);
  if (!text) return;
  await lens.memory.update(key, [text, ...earlier.filter(each => each !== text)].slice(0, MOST_KEPT));
  await vscode.commands.executeCommand('fxlens.writeInputs', params.uri, name, text);
}

/** An input line with its verdict below, and a button for earlier ones. */
function ask(client: LanguageClient, params: { uri: string; target: string }, known: InputsAnswer, earlier: string[]): Promise<string | undefined> {
  const box = vscode.window.createInputBox();
  const prompt = 'The construction, an arrow, and the arguments of forward';
  let timer: NodeJS.Timeout | undefined;
  let cancel: vscode.CancellationTokenSource | undefined;
  const verdict = async () => {
    const own = cancel = new vscode.CancellationTokenSource();
    box.busy = true;
    const answer = await client.sendRequest(tryInputs, { ...params, text: box.value.trim() }, own.token).catch(() => undefined);
    if (own.token.isCancellationRequested) return;
    box.busy = false;
    if (!answer) return;
    const [message, severity] = 'reason' in answer ? [answer.reason, vscode.InputBoxValidationSeverity.Warning] as const
      : [answer.verdict, answer.works ? vscode.InputBoxValidationSeverity.Info : vscode.InputBoxValidationSeverity.Warning] as const;
    box.validationMessage = { message, severity };
  };
  const changed = () => {
    clearTimeout(timer);
    cancel?.cancel();
    box.busy = false;
    const whole = box.value.includes('<-');
    box.validationMessage = whole ? undefined : { message: 'Write: Model(…) <- torch.randn(…)', severity: vscode.InputBoxValidationSeverity.Error };
    if (whole) timer = setTimeout(() => void verdict(), PAUSE_MS);
  };
  Object.assign(box, { title: `Example inputs of ${params.target}`, prompt, value: known.text, valueSelection: known.select, ignoreFocusOut: true });
  if (earlier.length) box.buttons = [{ iconPath: new vscode.ThemeIcon('history'), tooltip: 'Earlier Inputs' }];
  return new Promise(resolve => {
    let choosing = false;
    const end = (text?: string) => {
      clearTimeout(timer);
      cancel?.cancel();
      resolve(text);
      box.dispose();
    };
    box.onDidChangeValue(changed);
    box.onDidAccept(() => { if (box.value.includes('<-')) end(box.value.trim()); });
    box.onDidHide(() => { if (!choosing) end(); });
    box.onDidTriggerButton(async () => {
      choosing = true;
      const picked = await vscode.window.showQuickPick(earlier, { title: `Earlier inputs of ${params.target}` });
      choosing = false;
      if (picked) box.value = picked;
      box.show();
      changed();
    });
    box.show();
    changed();
  });
}
