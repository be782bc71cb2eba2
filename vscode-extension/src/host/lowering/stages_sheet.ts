/** The stages of a model as a sheet: a row for each node of the first, a column for each stage. Plain data, independent of VS Code. */
import type { Stage, StagesResult, Step } from '../../protocol/lowering';
import type { Row, Sheet } from '../../protocol/sheet_page';
import { APART, count, scientific, sequence } from './sheets';

export function stagesSheet({ target, report, quantize, engine, engines }: StagesResult): Sheet {
  const made = report.stages.filter(stage => !stage.problem);
  const [first, ...later] = made;
  const compared = report.compared ? made : [];
  const at = new Map(made.map(stage => [stage, byOrigin(stage)]));
  const rows = (first?.steps ?? []).map(({ name }): Row => {
    const steps = (stage: Stage) => at.get(stage)?.get(name) ?? [];
    const diverging = compared.filter(stage => steps(stage).some(step => step.name === stage.diverges));
    return {
      cells: [name, ...later.map(stage => sequence(cell(steps(stage), name))), ...compared.map(stage => furthest(steps(stage)))],
      nodes: [name],
      tone: diverging.length ? 'torch' : 'plain',
      note: diverging.length ? `The first that is far from eager in ${diverging.map(stage => stage.name).join(' and ')}.` : null,
    };
  });
  return {
    title: `Stages of ${target}`,
    facts: report.stages.map(stage => [stage.name, stage.problem ?? fact(stage, first?.name ?? '', report.compared)]),
    plot: null,
    tables: [{
      title: 'Nodes',
      columns: [
        { label: first?.name ?? '', numeric: false }, ...later.map(stage => ({ label: stage.name, numeric: false })),
        ...compared.map(stage => ({ label: `${stage.name} vs eager`, numeric: true })),
      ],
      rows,
    }],
    log: '',
    choices: [
      { name: 'form', label: 'Before ONNX', value: quantize ? 'quantized' : 'fused', options: [['fused', 'batch norms fused'], ['quantized', 'quantized to int8']] },
      { name: 'engine', label: 'Engine', value: engine, options: engines.map(each => [each.name, each.label]) },
      { name: 'values', label: 'Compare with eager', value: report.compared ? 'yes' : 'no', options: [['no', 'no'], ['yes', 'yes']] },
    ],
  };
}

/** The job's options for a choice on the page. */
export function stagesOptions(name: string, value: string): Record<string, unknown> {
  if (name === 'engine') return { engine: value };
  return name === 'form' ? { quantize: value === 'quantized' } : { compare: value === 'yes' };
}

/** The counterparts of a node: the steps shown at it, and those it was fused into. */
const cell = (steps: Step[], node: string) => [...steps.filter(step => step.at === node).map(step => short(step.target)), ...new Set(steps.filter(step => step.at !== node).map(step => `in ${step.at}`))];

/** `aten.linear` for `torch.ops.aten.linear.default`: the columns are narrow. */
const short = (target: string) => target.replace(/^torch\.ops\./, '').replace(/\.default$/, '');

function byOrigin(stage: Stage): Map<string, Step[]> {
  const found = new Map<string, Step[]>();
  for (const step of stage.steps) for (const origin of step.origins) found.set(origin, [...(found.get(origin) ?? []), step]);
  return found;
}

/** `1.2e-7 (3.0e-6)`: absolute, and relative to the largest magnitude. */
function furthest(steps: Step[]): string {
  const known = steps.filter(step => step.max_rel !== null).sort((one, other) => size(other) - size(one))[0];
  if (known?.max_rel === 'not finite') return known.max_rel;
  return known ? `${scientific(known.max_abs ?? 0)} (${scientific(known.max_rel ?? 0)})` : '';
}

function fact(stage: Stage, first: string, compared: boolean): string {
  const share = stage.name === first ? '' : `, ${stage.mapped === stage.steps.length ? 'all' : stage.mapped} of them known from ${first}`;
  const worst = Math.max(-1, ...stage.steps.map(size));
  const apart = Number.isFinite(worst) ? `at most ${scientific(worst)} of the largest value from eager` : `in places ${APART}`;
  return `${count(stage.steps.length, 'node')}${share}${stage.note ? ` (${stage.note})` : ''}` + (compared && worst >= 0 ? `; ${apart}` : '');
}

const size = ({ max_rel }: Step) => (max_rel === 'not finite' ? Infinity : max_rel ?? -1);
