/** The page of the graph. It uses its host only by messages, so it also runs in a plain browser. */
import './graph/graph.css';
import { type ExportFormat, type GraphView, type NodeInfo, type Options, type ToHost, type ToPage, isToPage } from '../protocol/graph_page';
import { Drawing } from './graph/drawing';
import { exportGraph } from './graph/export';
import { COLOURS, type Heat, type Measure, type Ranges, amount, heat, isFinite, measures, share, written } from './graph/heat';
import { layOut } from './graph/layout';
import { Minimap } from './graph/minimap';
import { Viewport } from './graph/viewport';
import { connect, element } from './connection';

const send = connect<ToHost>();

const viewport = new Viewport(element('canvas'));
const minimap = new Minimap(element<HTMLCanvasElement>('map'), viewport);
const colours = element<HTMLSelectElement>('heat');
const search = element<HTMLInputElement>('search');
const targets = element<HTMLSelectElement>('targets');
let drawing: Drawing | undefined;
let warmth: Heat | undefined;
/** The last drawing, with the trace that made its graph. */
let showing = Promise.resolve();
let traced: number | null = null;
/** Values of a run on the example inputs, and what was run; none for another model, or another trace of it. */
let ranges: Ranges = {};
let ran = '';
let selected: string[] = [];
let shown = '';
let latest = 0;
let hit = 0;
/** Whether the source has changed since the pending or shown drawing. */
let outdated = false;

async function showGraph(view: GraphView, trace: number | null): Promise<void> {
  const turn = ++latest;
  const started = performance.now();
  const layout = await layOut(view.dot);
  if (turn !== latest) return; // superseded by a newer one
  const same = `${view.file}:${view.target}:${view.direction}`;
  traced = trace;
  if (ran !== modelOf(view.target)) ranges = {};
  document.body.dataset.state = 'graph'; // before fitting, since a hidden box has no size
  setPartial(view.partial);
  const held = drawing?.held();
  drawing = new Drawing(layout.svg, view, { picked, toggled, reached: box => viewport.reveal(box) });
  viewport.show(layout.svg, layout.width, layout.height, same === shown);
  shown = same;
  document.body.dataset.drawn = String(Math.round(performance.now() - started));
  targets.replaceChildren(...view.targets.map(name => new Option(name, name, false, name === view.target)));
  element('file').textContent = view.file;
  // Values belong to nodes of the trace, not to torch's captured graphs.
  element('run').hidden = view.target.includes(' (');
  element('parameters').setAttribute('aria-pressed', String(view.parameters));
  element('direction').setAttribute('aria-pressed', String(view.direction === 'LR'));
  setStale(outdated);
  offerColours(view);
  colour();
  drawing.mark('nonfinite', names => names.some(name => !isFinite(ranges[name])));
  runSearch(false);
  select(selected, false);
  minimap.show(layout.svg);
  if (held) drawing.hold(held); // the focused box was part of the old drawing
}

function select(names: string[], reveal: boolean): void {
  selected = names;
  const first = drawing?.select(names);
  if (first && reveal) viewport.reveal(first);
  minimap.draw();
  showDetails(drawing?.view.nodes.filter(node => names.includes(node.name)) ?? []);
}

const modelOf = (target: string) => `${traced}:${target}`;

/** The values of a run: they colour the boxes, and the first non-finite node is shown. */
function showValues({ target, trace, ranges: found, first }: ToPage & { type: 'values' }): void {
  if (drawing?.view.target !== target || traced !== trace) return;
  [ranges, ran] = [found, modelOf(target)];
  offerColours(drawing.view);
  colours.value = 'magnitude';
  colour();
  drawing.mark('nonfinite', names => names.some(name => !isFinite(ranges[name])));
  select(first ? [first] : selected, true);
}

/** The choices for colouring the boxes: kind, known costs, and the values of a run. */
function offerColours(view: GraphView): void {
  const chosen = colours.value;
  const costs = measures(view, ranges).map(measure => new Option(COLOURS[measure].title, measure, false, measure === chosen));
  colours.replaceChildren(new Option('Kinds', '', false, false), ...costs);
}

function colour(): void {
  warmth = drawing && colours.value ? heat(drawing.view, colours.value as Measure, ranges) : undefined;
  drawing?.heat(warmth);
  const legend = element('legend');
  legend.hidden = !warmth;
  if (!warmth) return;
  const scale = document.createElement('i');
  const { adds, write } = COLOURS[warmth.measure];
  const bad = warmth.measure === 'magnitude' ? Object.values(ranges).filter(range => !isFinite(range)).length : 0;
  const whole = adds ? ` of ${write(warmth.total)}` : bad ? `; dashed: ${bad} ${bad === 1 ? 'value is' : 'values are'} not finite` : '; all values are finite';
  legend.replaceChildren('0', scale, share(warmth.most, warmth) + whole);
}

function picked(names: string[], open: boolean): void {
  select(names, false);
  send({ type: 'reveal', names, focus: open });
}

function toggled(id: string): void {
  if (!drawing) return;
  const open = new Set(drawing.view.expanded);
  if (!open.delete(id)) open.add(id);
  setOptions({ expanded: [...open] });
}

const setOptions = (options: Options) => send({ type: 'options', options });

/** One line per fact, as plain text, since names come from the user's code. */
function showDetails(nodes: NodeInfo[]): void {
  const details = element('details');
  details.hidden = nodes.length === 0;
  if (!nodes.length) return;
  const [node] = nodes;
  const total = nodes.reduce((sum, each) => sum + each.params, 0);
  const facts: [string, string][] = nodes.length > 1
    ? [['nodes', String(nodes.length)], ['first', node.name], ['last', nodes[nodes.length - 1].name], ['parameters', total ? total.toLocaleString('en') : '']]
    : [...node.facts];
  if (warmth && COLOURS[warmth.measure].adds) {
    facts.push([`share of ${COLOURS[warmth.measure].name}`, share(amount(nodes, warmth.measure, ranges), warmth)]);
  }
  if (nodes.length === 1 && ranges[node.name]) facts.push(['values', written(ranges[node.name])]);
  details.replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value]) => {
    const term = document.createElement('dt');
    const description = document.createElement('dd');
    term.textContent = name;
    description.textContent = value;
    return [term, description];
  }));
}

function setPartial(reason: string | null): void {
  const note = element('partial');
  note.hidden = reason === null;
  note.textContent = reason ?? '';
}

function setStale(stale: boolean): void {
  document.body.classList.toggle('stale', stale);
}

function runSearch(step: boolean): void {
  const found = drawing?.search(search.value) ?? [];
  hit = step && found.length ? (hit + 1) % found.length : 0;
  minimap.draw();
  element('hits').textContent = search.value.trim() ? `${found.length ? hit + 1 : 0}/${found.length}` : '';
  const box = found[hit];
  if (!box || !search.value.trim()) return;
  viewport.reveal(box);
  if (step) picked(drawing?.names(box) ?? [], false);
}

window.addEventListener('message', event => {
  const message: unknown = event.data;
  if (!isToPage(message)) return;
  switch (message.type) {
    case 'graph':
      outdated = false;
      showing = showGraph(message.view, message.trace).catch(error => showEmpty(`The graph could not be drawn: ${String(error)}`));
      break;
    case 'empty':
      latest++;
      showEmpty(message.reason);
      break;
    case 'select':
      select(message.names, true);
      break;
    case 'stale':
      outdated = message.stale;
      setStale(outdated);
      break;
    case 'values':
      void showing.then(() => showValues(message));
      break;
    case 'pinned':
      element('pin').setAttribute('aria-pressed', String(message.pinned));
      break;
    case 'export':
      void exportAs(message.format);
      break;
  }
});

async function exportAs(format: ExportFormat): Promise<void> {
  if (drawing) send({ type: 'exported', format, data: await exportGraph(drawing, format) });
}

function showEmpty(reason: string): void {
  drawing = undefined;
  shown = '';
  element('canvas').replaceChildren();
  element('reason').textContent = reason;
  document.body.dataset.state = 'empty';
  showDetails([]);
  setPartial(null);
}

const pressed = (id: string) => element(id).getAttribute('aria-pressed') === 'true';
const actions: Record<string, () => void> = {
  fit: () => viewport.fit(),
  in: () => viewport.zoom(1.25),
  out: () => viewport.zoom(0.8),
  parameters: () => setOptions({ parameters: !pressed('parameters') }),
  direction: () => setOptions({ direction: pressed('direction') ? 'TB' : 'LR' }),
  collapse: () => setOptions({ expanded: [] }),
  expand: () => setOptions({ expanded: Object.keys(drawing?.view.groups ?? {}).concat(drawing?.view.expanded ?? []) }),
  run: () => { if (drawing) send({ type: 'run', target: drawing.view.target }); },
  pin: () => send({ type: 'pin', pinned: !pressed('pin') }),
};
for (const [id, run] of Object.entries(actions)) element(id).addEventListener('click', run);

// The toolbar is one Tab stop; arrow keys move between its buttons.
const buttons = ['heat', ...Object.keys(actions)].map(id => element(id)).sort((one, other) => (one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
buttons.forEach((button, index) => {
  button.tabIndex = index ? -1 : 0;
  button.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    buttons[(index + step + buttons.length) % buttons.length].focus();
  });
  button.addEventListener('focus', () => buttons.forEach(each => { each.tabIndex = each === button ? 0 : -1; }));
});

colours.addEventListener('change', () => { colour(); select(selected, false); });
targets.addEventListener('change', () => setOptions({ target: targets.value, expanded: null }));
search.addEventListener('input', () => runSearch(false));
search.addEventListener('keydown', event => {
  if (event.key === 'Enter') runSearch(true);
  if (event.key === 'Escape') {
    search.value = '';
    runSearch(false);
    drawing?.svg.querySelector<SVGElement>('[tabindex="0"]')?.focus({ preventScroll: true });
  }
});
element('export').addEventListener('click', () => send({ type: 'export' }));
document.addEventListener('keydown', event => {
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
  const keys: Record<string, () => void> = { '+': actions.in, '=': actions.in, '-': actions.out, '0': actions.fit, '/': () => search.focus() };
  const run = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
  if (!run) return;
  event.preventDefault();
  run();
});

send({ type: 'ready' });
