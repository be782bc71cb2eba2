/** The commands that lower, time and estimate a model: their choices, and how their results are shown. */
import * as os from 'node:os';
import * as vscode from 'vscode';
import { activeSource } from '../code/addresses';
import type { Lens } from '../lens';
import { type BenchResult, type EstimateResult, type LowerResult, type StagesResult, bench, engines, estimate, lower, stages } from '../../protocol/lowering';
import { type Choice, engineChoices } from './choices';
import { JobTabs } from './panel';
import { benchSheet, estimateSheet, lowerSheet } from './sheets';
import { stagesOptions, stagesSheet } from './stages_sheet';

const BENCHMARKS: Choice[] = [
  { label: 'As given', description: 'the example inputs, all threads', options: {} },
  { label: 'As given, without torch.compile', description: 'saves about a minute of compilation',
    options: { without: ['compile'] } },
  { label: 'Batch 1 and 8, one thread and all', description: 'takes four times as long', options: { batches: [1, 8], threads: [1, os.availableParallelism()] } },
];
const COMPARISONS: Choice[] = [
  { label: 'Side by Side', description: 'from the trace to an engine', options: { compare: false } },
  { label: 'Side by Side, Compared with Eager', description: 'runs each of them on the example inputs', options: { compare: true } },
];
const DEVICES = ['H200', 'H100', 'A100', 'V100'];

export function registerLowering(context: vscode.ExtensionContext, lens: Lens): vscode.Disposable[] {
  const tabs = new JobTabs(lens, context.extensionUri);
  const command = (name: string, run: (source: vscode.Uri, target: string) => Promise<void>) =>
    vscode.commands.registerCommand(name, async (uri?: unknown, target?: unknown) => {
      const source = typeof uri === 'string' ? vscode.Uri.parse(uri) : activeSource();
      if (!source) return;
      const model = typeof target === 'string' ? target : await lens.pickTarget(source);
      if (model) await run(source, model);
    });
  return [
    tabs,
    command('fxlens.lower', async (source, target) => {
      const client = await lens.requireClient();
      if (!client) return;
      const answer = await client.sendRequest(engines, { uri: client.code2ProtocolConverter.asUri(source) });
      if ('reason' in answer) return void vscode.window.showErrorMessage(`FX Lens: ${answer.reason}`);
      const picked = await vscode.window.showQuickPick(engineChoices(answer.engines), { title: `Lower ${target} to…`, matchOnDescription: true });
      if (!picked) return;
      await tabs.run({
        title: `Lower ${target}`, source, target, options: { ...picked.options, preview: true },
        // A build may know what shapes alone do not show.
        send: async (client, params, cancel) => {
          const answer = await client.sendRequest(lower, params, cancel);
          const build = 'reason' in answer && params.options.preview && !cancel.isCancellationRequested;
          return build ? client.sendRequest(lower, { ...params, options: { ...params.options, preview: false } }, cancel) : answer;
        },
        sheet: result => lowerSheet(result as LowerResult),
        chosen: () => ({ preview: false }),
      });
    }),
    command('fxlens.bench', async (source, target) => {
      const picked = await vscode.window.showQuickPick(BENCHMARKS, { title: `Benchmark ${target}` });
      if (!picked) return;
      await tabs.run({
        title: `Benchmark ${target}`, source, target, options: picked.options,
        send: (client, params, cancel) => client.sendRequest(bench, params, cancel),
        sheet: result => benchSheet(result as BenchResult),
      });
    }),
    command('fxlens.estimate', async (source, target) => {
      const devices: Choice[] = DEVICES.map(device => ({ label: device, options: { device } }));
      devices.push({ label: 'This CPU', description: 'measured now', options: { device: 'cpu' } });
      devices.push({ label: 'No device', description: 'operations and memory only', options: {} });
      const picked = await vscode.window.showQuickPick(devices, { title: `Estimate ${target} on…` });
      if (!picked) return;
      await tabs.run({
        title: `Estimate ${target}`, source, target, options: picked.options,
        send: (client, params, cancel) => client.sendRequest(estimate, params, cancel),
        sheet: result => estimateSheet(result as EstimateResult),
      });
    }),
    command('fxlens.stages', async (source, target) => {
      const picked = await vscode.window.showQuickPick(COMPARISONS, { title: `Stages of ${target}` });
      if (!picked) return;
      await tabs.run({
        title: `Stages of ${target}`, source, target, options: picked.options,
        send: (client, params, cancel) => client.sendRequest(stages, params, cancel),
        sheet: result => stagesSheet(result as StagesResult),
        chosen: stagesOptions,
      });
    }),
  ];
}
