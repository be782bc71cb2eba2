/** Results of lower, bench and estimate as sheets: facts and tables. Plain data, independent of VS Code. */
import type { BenchResult, Difference, EstimateResult, Kernel, Layer, LowerResult, Measurement, Part, Span } from '../../protocol/lowering';
import type { Row, Sheet, Table } from '../../protocol/sheet_page';
import { big, bytes, milliseconds } from '../../quantities';

/** The meaning of a difference that is not finite. */
export const APART = 'not finite where eager is, or the reverse';

const column = (label: string, numeric = false) => ({ label, numeric });

export function lowerSheet({ target, report }: LowerResult): Sheet {
  const engine = report.label;
  const inside = report.layers.filter(layer => layer.engine).length;
  const total = report.layers.length;
  const version = report.parts.find(part => part.info.version)?.info.version;
  const facts: [string, string][] = [
    ['engine', [engine, version].filter(Boolean).join(' ')],
    ['precision', report.precision],
    ['in the engine', `${inside} of ${total} nodes, ${count(report.parts.filter(part => part.engine).length, 'part')}${share(report.layers, layer => layer.engine, ' of the operations')}`],
    ['captured by', report.not_traced ? `${report.captured_by}, not by torch.fx: ${report.not_traced}` : ''],
    ['dimensions that may change', Object.entries(report.dynamic).map(([name, dims]) => `${name}: ${dims.join(', ')}`).join('; ')],
    ['weights', bytes(report.parts.reduce((sum, part) => sum + part.weights_bytes, 0))],
    ['difference from eager', !report.built ? '' : report.max_abs_error === null ? cannotCompare(report.parts)
      : report.max_abs_error === 'not finite' ? `in places ${APART}`
      : `${scientific(report.max_abs_error)} absolute, ${scientific(report.max_rel_error ?? 0)} relative`],
    ['time', Object.entries(report.timings).map(([stage, ms]) => `${stage} ${milliseconds(ms)}`).join(', ')],
  ];
  const kernels = report.parts.flatMap(part => part.kernels);
  return {
    title: `${target} on ${engine}${report.built ? '' : ', preview'}`,
    facts,
    plot: null,
    actions: report.built ? [] : [['build', 'Build']],
    tables: [partsTable(report, engine), layersTable(report), ...(kernels.length ? [kernelTable(kernels)] : [])],
    log: report.parts.map(part => part.info.log ?? '').flat().filter(Boolean).join('\n'),
  };
}

/** `, 98.5 % of the operations`, or empty if there are none. */
function share(layers: Layer[], counted: (layer: Layer) => boolean, of = ''): string {
  const sum = (some: Layer[]) => some.reduce((total, layer) => total + (layer.flops ?? 0), 0);
  return sum(layers) ? `${of && ', '}${((100 * sum(layers.filter(counted))) / sum(layers)).toFixed(1)} %${of}` : '';
}

function partsTable({ parts, layers, built }: LowerResult['report'], engine: string): Table {
  return {
    title: 'Parts',
    columns: [column('part'), column('runs on'), column('nodes', true), column('operators'), column('of the operations', true), column('weights', true),
      ...(built ? [column('build', true)] : [])],
    rows: parts.map(part => ({
      cells: [
        part.name, part.engine ? engine : 'PyTorch', String(part.nodes.length), operators(part.operators), share(layers, layer => layer.part === part.name),
        part.weights_bytes ? bytes(part.weights_bytes) : '', ...(built ? [part.engine ? milliseconds(part.build_ms) : ''] : []),
      ],
      nodes: part.nodes, tone: part.engine ? 'engine' : 'torch', note: part.info.cannot_run ?? null,
    })),
  };
}

function layersTable({ layers, parts }: LowerResult['report']): Table {
  const kernels = new Map<string, string[]>();
  for (const kernel of parts.flatMap(part => part.kernels).filter(each => each.types.length)) {
    for (const node of kernel.nodes) kernels.set(node, [...(kernels.get(node) ?? []), ...kernel.types]);
  }
  return {
    title: 'Layers',
    columns: [column('node'), column('line'), column('operators'), column('value'), column('precision'), column('weights', true), column('operations', true)],
    rows: layers.map(layer => ({
      cells: [
        layer.node, place(layer.span), layer.engine ? sequence(layer.operators) : `PyTorch: ${layer.target}`, layer.value,
        [...new Set(kernels.get(layer.node) ?? [layer.precision])].join(', '), layer.weights_bytes ? bytes(layer.weights_bytes) : '',
        layer.flops ? big(layer.flops, 'FLOP') : '',
      ],
      nodes: [layer.node], tone: layer.engine ? 'engine' : 'torch',
      note: layer.reason && `${layer.code}: stays in PyTorch: ${layer.reason}`,
    })),
  };
}

function kernelTable(kernels: Kernel[]): Table {
  return {
    title: 'Kernels',
    columns: [column('kernel'), column('computes'), column('kind'), column('types'), column('tactic'), column('moves', true)],
    rows: kernels.map(each => ({
      cells: [each.name, each.nodes.join(', '), each.kind, each.types.join(', '), each.tactic, each.bytes ? bytes(each.bytes) : ''], nodes: each.nodes, tone: 'engine', note: null,
    })),
  };
}

export function benchSheet({ target, svg, report }: BenchResult): Sheet {
  const { torch, cpu, cores, gpu, load } = report.environment;
  const facts: [string, string][] = [
    ['inputs', report.inputs],
    ['machine', [`torch ${torch}`, cpu, count(cores, 'core'), gpu].filter(Boolean).join(', ')],
  ];
  if (load > 0.5) facts.push(['noise', `other programs were running (load ${load.toFixed(1)}), so the times are less exact`]);
  return {
    title: `Benchmark of ${target}`,
    facts,
    plot: svg,
    tables: [{
      title: 'One call',
      columns: [column('variant'), column('batch', true), column('threads', true), column('median', true), column('10 % – 90 %', true),
        column('vs eager', true), column('error', true), column('preparation', true), column('memory', true)],
      rows: report.rows.map((row): Row => ({
        cells: row.median_ms === undefined ? [row.title, String(row.batch), String(row.threads), '', '', '', '', '', ''] : [
          row.title, String(row.batch), String(row.threads), milliseconds(row.median_ms),
          `${milliseconds(row.p10_ms ?? row.median_ms)} – ${milliseconds(row.p90_ms ?? row.median_ms)}`,
          row.speedup === null ? '' : `${row.speedup.toFixed(2)}×`, row.max_rel_error === null ? '' : scientific(row.max_rel_error),
          milliseconds(row.prepare_ms + row.first_ms), row.memory_mib ? `${row.memory_mib.toFixed(0)} MiB` : '',
        ],
        nodes: [], tone: 'plain', note: row.problem,
      })),
    }, ...report.rows.filter(row => row.layers.length).map(timesTable)],
    log: '',
  };
}

/** Times by layer, the slowest first. */
function timesTable({ title, batch, layers }: Measurement): Table {
  return {
    title: `${title} by layer, batch ${batch}`,
    columns: [column('share', true), column('one run', true), column('node'), column('kernels'), column('with'), column('line')],
    rows: [...layers].sort((one, other) => other.ms - one.ms).map(({ node, nodes, kernels, ms, share, span }): Row => ({
      cells: [
        `${(100 * share).toFixed(1)} %`, milliseconds(ms), node || '(changes of layout)', kernels.length ? sequence(kernels) : 'PyTorch',
        nodes.filter(each => each !== node).join(', '), place(span),
      ],
      nodes: node ? [node] : [], tone: kernels.length ? 'engine' : 'torch', note: null,
    })),
  };
}

export function estimateSheet({ target, device, totals, nodes }: EstimateResult): Sheet {
  const facts: [string, string][] = [
    ['operations', big(totals.flops, 'FLOP')],
    ['memory traffic', bytes(totals.bytes)],
    ['parameters', totals.parameters.toLocaleString('en')],
    ['peak memory', bytes(totals.peak_bytes) + (totals.peak_node ? ` at ${totals.peak_node}` : '')],
  ];
  if (totals.seconds !== null) {
    const launches = totals.launch_seconds ?? 0;
    facts.unshift(['time', `about ${milliseconds(totals.seconds * 1e3)} on ${device}: ${milliseconds((totals.seconds - launches) * 1e3)} for operations and memory, by the roofline, and ${milliseconds(launches * 1e3)} to start the kernels`]);
  }
  const whole = totals.seconds ?? 0;
  return {
    title: device ? `${target} on ${device}, estimated` : `Cost of ${target}`,
    facts,
    plot: null,
    tables: [{
      title: 'Nodes',
      columns: [column('node'), column('target'), column('operations', true), column('reads', true), column('writes', true),
        column('parameters', true), ...(device ? [column('time', true), column('share', true)] : [])],
      rows: nodes.filter(node => node.flops || node.read || node.written).map((node): Row => ({
        cells: [
          node.name, node.target, node.flops ? big(node.flops, 'FLOP') : '', bytes(node.read), bytes(node.written),
          node.parameters ? node.parameters.toLocaleString('en') : '',
          ...(device ? [milliseconds((node.seconds ?? 0) * 1e3), whole ? `${((100 * (node.seconds ?? 0)) / whole).toFixed(1)} %` : ''] : []),
        ],
        nodes: [node.name], tone: 'plain', note: null,
      })),
    }],
    log: '',
  };
}

/** Empty in a notebook, whose joined lines mean nothing to the user. */
const place = (span: Span | null) => (span && !span[0].endsWith('.ipynb') ? `${span[0].split(/[\\/]/).pop()}:${span[1]}` : '');
const cannotCompare = (parts: Part[]) => parts.find(part => part.info.cannot_run)?.info.cannot_run ?? 'not compared';
export const count = (number: number, thing: string) => `${number} ${thing}${number === 1 ? '' : 's'}`;

function operators(counts: Record<string, number>): string {
  const sorted = Object.entries(counts).sort(([, a], [, b]) => b - a);
  const more = sorted.length > 6 ? `, ${sorted.length - 6} more` : '';
  return sorted.slice(0, 6).map(([name, number]) => `${number} ${name}`).join(', ') + more;
}

/** `Mul, Add ×3`: equal neighbours are counted. */
export function sequence(names: string[]): string {
  const runs: [string, number][] = [];
  for (const name of names) {
    const last = runs[runs.length - 1];
    if (last?.[0] === name) last[1]++;
    else runs.push([name, 1]);
  }
  const shown = runs.slice(0, 5).map(([name, number]) => (number > 1 ? `${name} ×${number}` : name));
  return shown.join(', ') + (runs.length > 5 ? ', …' : '');
}

export const scientific = (number: Difference) => (typeof number === 'string' ? number : number === 0 ? '0' : number.toExponential(1));
