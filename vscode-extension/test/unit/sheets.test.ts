/** Results of jobs as sheets, and the checks of what passes between the page and its host. */
import { describe, expect, it } from 'vitest';
import { engineChoices } from '../../src/host/lowering/choices';
import { benchSheet, estimateSheet, lowerSheet } from '../../src/host/lowering/sheets';
import { stagesOptions, stagesSheet } from '../../src/host/lowering/stages_sheet';
import { bytes, milliseconds } from '../../src/quantities';
import type { LowerResult, Span } from '../../src/protocol/lowering';
import { isFromSheet, isToSheet } from '../../src/protocol/sheet_page';

const layer = { part: 'submod_0', target: 'conv', engine: true, operators: ['Conv'], value: 'f32[1, 8]', precision: 'f32', weights_bytes: 2048, flops: 3000, code: null, reason: null,
  span: ['/models/net.py', 12, 8, 12, 20] as Span };
const lowered: LowerResult = {
  target: 'Net',
  report: {
    label: 'ONNX Runtime', precision: 'fp32', complete: false, built: true, captured_by: 'torch.fx', not_traced: null, dynamic: {}, timings: { trace: 12.34, build: 1500 }, max_abs_error: 1.5e-7, max_rel_error: 3e-8,
    parts: [
      { name: 'submod_0', engine: 'onnxruntime', nodes: ['conv', 'add'], operators: { Conv: 1, Add: 2 }, weights_bytes: 2048, build_ms: 20, kernels: [], info: { version: '1.31' } },
      { name: 'submod_1', engine: null, nodes: ['cdist'], operators: {}, weights_bytes: 0, build_ms: 0, kernels: [], info: {} },
    ],
    layers: [
      { ...layer, node: 'conv' },
      { ...layer, node: 'add', operators: ['Add', 'Add', 'Mul'], weights_bytes: 0, flops: 0 },
      { ...layer, node: 'cdist', part: 'submod_1', engine: false, operators: [], flops: 1000, code: 'FX401', reason: 'there is no converter' },
    ],
  },
};

const engine = (name: string, label: string) => ({ name, label, runs_on: 'CPU', precisions: ['fp32'], dynamic: true, missing: null });
const choices = { quantize: false, engine: 'onnxruntime', engines: [engine('onnxruntime', 'ONNX Runtime'), engine('openvino', 'OpenVINO')] };

describe('sheets', () => {
  it('tell parts, layers and reasons of a lowering', () => {
    const sheet = lowerSheet(lowered);
    const [parts, layers] = sheet.tables;
    expect(sheet.title).toBe('Net on ONNX Runtime');
    expect(Object.fromEntries(sheet.facts)['in the engine']).toBe('2 of 3 nodes, 1 part, 75.0 % of the operations');
    expect(parts.rows.map(row => [row.cells[1], row.tone])).toEqual([['ONNX Runtime', 'engine'], ['PyTorch', 'torch']]);
    expect(layers.rows.map(row => row.cells[2])).toEqual(['Conv', 'Add ×2, Mul', 'PyTorch: conv']);
    expect(layers.rows[0].cells[1]).toBe('net.py:12');
    expect(layers.rows[2].note).toBe('FX401: stays in PyTorch: there is no converter');
    expect(sheet.tables.flatMap(table => table.rows).every(row => row.cells.length)).toBe(true);
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
  });

  it('tell what a lowering would be, and offer to build it', () => {
    const report = { ...lowered.report, built: false, max_abs_error: null, dynamic: { x: [0, 2] }, captured_by: 'torch.export', not_traced: 'an if' };
    const sheet = lowerSheet({ target: 'Net', report });
    const facts = Object.fromEntries(sheet.facts);
    expect(sheet.title).toBe('Net on ONNX Runtime, preview');
    expect(sheet.actions).toEqual([['build', 'Build']]);
    expect(lowerSheet(lowered).actions).toEqual([]);
    expect(facts['difference from eager']).toBe('');
    expect(facts['dimensions that may change']).toBe('x: 0, 2');
    expect(facts['captured by']).toBe('torch.export, not by torch.fx: an if');
    const [parts, layers] = sheet.tables;
    expect(parts.columns.map(each => each.label)).not.toContain('build');
    expect(parts.rows.map(row => row.cells[4])).toEqual(['75.0 %', '25.0 %']);
    expect(layers.rows[2].note).toBe('FX401: stays in PyTorch: there is no converter');
    expect(sheet.tables.every(table => table.rows.every(row => row.cells.length === table.columns.length))).toBe(true);
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
  });

  it('have no lines of the joined text of a notebook', () => {
    const layers: any = lowered.report.layers.map(layer => ({ ...layer, span: ['/models/study.ipynb', 27, 0, 27, 4] }));
    const sheet = lowerSheet({ ...lowered, report: { ...lowered.report, layers } });
    expect(sheet.tables[1].rows.map(row => row.cells[1])).toEqual(layers.map(() => ''));
  });

  it('say where only one of both has NaN or infinity', () => {
    const step = (name: string, max_rel: any) => ({ name, target: name, origins: ['x'], at: 'x', max_abs: max_rel, max_rel });
    const stage: any = { name: 'torch.fx', steps: [step('x', 'not finite'), step('y', 0.5)], problem: null, diverges: 'x', mapped: 2 };
    const sheet = stagesSheet({ target: 'Net', ...choices, report: { model: 'Net', compared: true, stages: [stage] } });
    expect(sheet.facts[0][1]).toContain('in places not finite where eager is, or the reverse');
    expect(sheet.tables[0].rows[0].cells).toEqual(['x', 'not finite']);
    const report: any = { ...lowered.report, max_abs_error: 'not finite', max_rel_error: 'not finite' };
    expect(Object.fromEntries(lowerSheet({ ...lowered, report }).facts)['difference from eager']).toBe('in places not finite where eager is, or the reverse');
  });

  it('tell the types of the kernels that an engine built', () => {
    const kernel = { name: 'k', kind: 'fused', tactic: 't', types: ['Half'], nodes: ['conv', 'add'], bytes: 4096 };
    const report = { ...lowered.report, parts: [{ ...lowered.report.parts[0], kernels: [kernel], info: { cannot_run: 'no GPU' } }], max_abs_error: null };
    const sheet = lowerSheet({ target: 'Net', report });
    expect(sheet.tables[1].rows[0].cells[4]).toBe('Half');
    expect(sheet.tables[2].rows[0].nodes).toEqual(['conv', 'add']);
    expect(sheet.tables[2].rows[0].cells[1]).toBe('conv, add');
    const bare = { ...report, parts: [{ ...report.parts[0], kernels: [{ ...kernel, types: [], bytes: 0 }] }] };
    const [, layers, kernels] = lowerSheet({ target: 'Net', report: bare }).tables;
    expect([layers.rows[0].cells[4], kernels.rows[0].cells[5]]).toEqual(['f32', '']);
    expect(Object.fromEntries(sheet.facts)['difference from eager']).toBe('no GPU');
  });

  it('tell what became of each node in each stage, and the first that is far from eager', () => {
    const step = (name: string, target: string, origins: string[], max_rel: number | null = null) => ({ name, target, origins, at: origins[0] ?? '', max_abs: max_rel, max_rel });
    const stage = (name: string, steps: any[], diverges: string | null = null) =>
      ({ name, steps, problem: null, note: null, diverges, mapped: steps.filter(each => each.origins.length).length });
    const report = {
      model: 'Net', compared: true,
      stages: [
        stage('torch.fx', [step('conv', 'conv', ['conv'], 0), step('bn', 'bn', ['bn'], 0)]),
        stage('fused', [step('conv', 'conv', ['conv', 'bn'], 1e-6)]),
        { ...stage('torch.export', []), problem: 'it does not export' },
        stage('ONNX', [step('a', 'Conv', ['conv']), step('b', 'Relu', ['bn']), step('c', 'Mul', ['bn'], 0.25), step('d', 'Mul', [])], 'c'),
      ],
    };
    const sheet = stagesSheet({ target: 'Net', ...choices, report });
    expect(sheet.facts).toEqual([
      ['torch.fx', '2 nodes; at most 0 of the largest value from eager'],
      ['fused', '1 node, all of them known from torch.fx; at most 1.0e-6 of the largest value from eager'],
      ['torch.export', 'it does not export'],
      ['ONNX', '4 nodes, 3 of them known from torch.fx; at most 2.5e-1 of the largest value from eager'],
    ]);
    const [table] = sheet.tables;
    expect(table.columns.map(each => each.label)).toEqual(['torch.fx', 'fused', 'ONNX', 'torch.fx vs eager', 'fused vs eager', 'ONNX vs eager']);
    expect(table.rows[1].cells).toEqual(['bn', 'in conv', 'Relu, Mul', '0 (0)', '1.0e-6 (1.0e-6)', '2.5e-1 (2.5e-1)']);
    expect(table.rows.map(row => [row.nodes, row.tone, row.note])).toEqual([
      [['conv'], 'plain', null], [['bn'], 'torch', 'The first that is far from eager in ONNX.'],
    ]);
    expect(stagesSheet({ target: 'Net', ...choices, report: { ...report, compared: false } }).tables[0].columns).toHaveLength(3);
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
  });

  it('offer the stages that can be chosen, and say what a choice changes', () => {
    const sheet = stagesSheet({ target: 'Net', ...choices, engine: 'openvino', quantize: true, report: { model: 'Net', compared: false, stages: [] } });
    expect(sheet.choices?.map(each => [each.name, each.value, each.options.map(([value]) => value)])).toEqual([
      ['form', 'quantized', ['fused', 'quantized']], ['engine', 'openvino', ['onnxruntime', 'openvino']], ['values', 'no', ['no', 'yes']],
    ]);
    expect(sheet.choices?.map(each => `${each.label}: ${each.options.map(([, text]) => text).join(' / ')}`)).toEqual([
      'Before ONNX: batch norms fused / quantized to int8', 'Engine: ONNX Runtime / OpenVINO', 'Compare with eager: no / yes',
    ]);
    expect([stagesOptions('form', 'quantized'), stagesOptions('engine', 'openvino'), stagesOptions('values', 'yes')]).toEqual([
      { quantize: true }, { engine: 'openvino' }, { compare: true },
    ]);
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
    expect(isToSheet({ type: 'sheet', sheet: { ...sheet, choices: [{ name: 'form' }] } })).toBe(false);
    expect(isFromSheet({ type: 'choose', name: 'engine', value: 'openvino' })).toBe(true);
    expect(isFromSheet({ type: 'choose', name: 'engine', value: 7 })).toBe(false);
  });

  it('tell why a variant was not measured', () => {
    const row = { title: 'eager', batch: 1, threads: 1, median_ms: 2, p10_ms: 1, p90_ms: 3, prepare_ms: 0, first_ms: 4, layers: [], memory_mib: 0, max_rel_error: 0, speedup: 1, problem: null };
    const environment = { torch: '2.13', cpu: 'cpu', cores: 1, gpu: null, load: 3 };
    const missing = { ...row, title: 'TensorRT', median_ms: undefined, problem: 'needs a GPU' };
    const sheet = benchSheet({ target: 'Net', svg: '<svg/>', report: { inputs: 'x', environment, rows: [row, missing] } });
    expect(sheet.tables[0].rows.map(each => [each.cells.length, each.note])).toEqual([[9, null], [9, 'needs a GPU']]);
    expect(sheet.facts.find(([name]) => name === 'noise')?.[1]).toContain('less exact');
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
  });

  it('tell where the time of a run goes', () => {
    const row = { title: 'ONNX Runtime', batch: 2, threads: 1, median_ms: 2, prepare_ms: 1000, first_ms: 500, memory_mib: 0, max_rel_error: 0, speedup: 1, problem: null };
    const times = [
      { node: 'add', nodes: ['add'], kernels: [], ms: 0.5, share: 0.25, span: null },
      { node: 'conv', nodes: ['conv', 'norm', 'relu'], kernels: ['Conv', 'ReorderOutput'], ms: 1.5, share: 0.75, span: ['C:\\net.py', 9, 0, 9, 4] as Span },
    ];
    const environment = { torch: '2.13', cpu: 'cpu', cores: 1, gpu: null, load: 0 };
    const sheet = benchSheet({ target: 'Net', svg: '<svg/>', report: { inputs: 'x', environment, rows: [{ ...row, title: 'eager', layers: [] }, { ...row, layers: times }] } });
    expect(sheet.tables[0].rows[0].cells).toContain('1.50 s');
    expect(sheet.tables[1].title).toBe('ONNX Runtime by layer, batch 2');
    expect(sheet.tables[1].rows.map(each => each.cells)).toEqual([
      ['75.0 %', '1.50 ms', 'conv', 'Conv, ReorderOutput', 'norm, relu', 'net.py:9'],
      ['25.0 %', '0.50 ms', 'add', 'PyTorch', '', ''],
    ]);
    expect(sheet.tables[1].rows[0].nodes).toEqual(['conv']);
    expect(isToSheet({ type: 'sheet', sheet })).toBe(true);
  });

  it('leave times out without a device', () => {
    const totals = { flops: 2.5e9, bytes: 2 ** 21, parameters: 1000, peak_bytes: 100, peak_node: 'conv', seconds: null, launch_seconds: null };
    const node = { name: 'conv', target: 'conv', flops: 10, read: 1, written: 1, parameters: 5, seconds: null };
    const sheet = estimateSheet({ target: 'Net', device: null, totals, nodes: [node] });
    expect(sheet.facts[0]).toEqual(['operations', '2.50 GFLOP']);
    expect(sheet.tables[0].columns.map(column => column.label)).not.toContain('time');
    const timed = estimateSheet({ target: 'Net', device: 'H100', totals: { ...totals, seconds: 2e-3 }, nodes: [{ ...node, seconds: 1e-3 }] });
    expect(timed.tables[0].rows[0].cells.slice(-2)).toEqual(['1.00 ms', '50.0 %']);
    const [[label, text]] = estimateSheet({ target: 'Net', device: 'H100', totals: { ...totals, seconds: 2e-3, launch_seconds: 5e-4 }, nodes: [] }).facts;
    expect([label, text]).toEqual(['time', 'about 2.00 ms on H100: 1.50 ms for operations and memory, by the roofline, and 0.50 ms to start the kernels']);
  });

  it('write sizes and times for people', () => {
    expect([bytes(512), bytes(2048), bytes(3 * 2 ** 20)]).toEqual(['512 B', '2.0 KiB', '3.0 MiB']);
    expect([milliseconds(0.05), milliseconds(1.234), milliseconds(2500)]).toEqual(['50.0 µs', '1.23 ms', '2.50 s']);
  });
});

describe('messages', () => {
  it('of another shape are refused', () => {
    expect(isFromSheet({ type: 'reveal', names: ['a'], focus: true })).toBe(true);
    expect(isFromSheet({ type: 'reveal', names: [1], focus: true })).toBe(false);
    expect(isFromSheet({ type: 'run', command: 'x' })).toBe(false);
    expect(isToSheet({ type: 'sheet', sheet: { title: 'x' } })).toBe(false);
  });
});

describe('engines', () => {
  it('are offered in each precision, with those that cannot run here last', () => {
    const gpu = { name: 'g', label: 'G', runs_on: 'GPU', precisions: ['fp32', 'fp16'], dynamic: false, missing: 'there is no GPU' };
    const cpu = { name: 'c', label: 'C', runs_on: 'CPU', precisions: ['fp32'], dynamic: true, missing: null };
    expect(engineChoices([gpu, cpu])).toEqual([
      { label: 'C', description: 'CPU, fp32', detail: undefined, options: { engine: 'c', precision: 'fp32' } },
      { label: 'C, dynamic sizes', description: 'CPU, fp32; the sizes in dynamic_shapes, or the first dimension, may change', detail: undefined, options: { engine: 'c', precision: 'fp32', dynamic: true } },
      { label: 'G', description: 'GPU, fp32', detail: 'Not available: there is no GPU', options: { engine: 'g', precision: 'fp32' } },
      { label: 'G, fp16', description: 'GPU, fp16', detail: 'Not available: there is no GPU', options: { engine: 'g', precision: 'fp16' } },
    ]);
  });
});
