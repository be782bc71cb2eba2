/** The choices of the commands. Plain data, independent of VS Code. */
import type { Engine } from '../../protocol/lowering';

/** An item of a quick pick, and its options of the job. */
export interface Choice {
  label: string;
  description?: string;
  detail?: string;
  options: Record<string, unknown>;
}

/** Each engine in each of its precisions, and once with dynamic sizes; those that cannot run here come last. */
export function engineChoices(engines: Engine[]): Choice[] {
  const choices = ({ name, label, runs_on, precisions, dynamic, missing }: Engine): Choice[] => {
    const detail = missing ? `Not available: ${missing}` : undefined;
    const plain = precisions.map((precision, at) => ({
      label: at ? `${label}, ${precision}` : label, description: `${runs_on}, ${precision}`, detail, options: { engine: name, precision },
    }));
    const changing = {
      label: `${label}, dynamic sizes`, description: `${runs_on}, ${precisions[0]}; the sizes in dynamic_shapes, or the first dimension, may change`, detail,
      options: { engine: name, precision: precisions[0], dynamic: true },
    };
    return dynamic ? [...plain, changing] : plain;
  };
  return [...engines.filter(each => !each.missing), ...engines.filter(each => each.missing)].flatMap(choices);
}
