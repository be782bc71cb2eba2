/** The page of results: a job's progress, then facts, a plot, tables whose rows lead to the source, and a log. */
import './sheet/sheet.css';
import { type Choice, type FromSheet, type Row, type Sheet, type Table, isToSheet } from '../protocol/sheet_page';
import { connect, element } from './connection';

const send = connect<FromSheet>();

/** Node to the rows about it alone, and to those also about others. */
let rows: { element: HTMLElement; nodes: string[] }[] = [];

function made<K extends keyof HTMLElementTagNameMap>(name: K, text = '', className = ''): HTMLElementTagNameMap[K] {
  const result = document.createElement(name);
  if (text) result.textContent = text;
  if (className) result.className = className;
  return result;
}

function show(state: 'running' | 'failed' | 'sheet', title: string): void {
  document.body.dataset.state = state;
  element('title').textContent = title;
}

function showRunning(title: string, text: string, percent: number): void {
  show('running', title);
  element('stage').textContent = text;
  element('bar').setAttribute('aria-valuenow', String(percent));
  element('done').style.setProperty('width', `${Math.max(2, percent)}%`);
}

function showSheet(sheet: Sheet): void {
  show('sheet', sheet.title);
  rows = [];
  element('facts').replaceChildren(...sheet.facts.filter(([, value]) => value).flatMap(([name, value]) => [made('dt', name), made('dd', value)]));
  element('choices').replaceChildren(...(sheet.choices ?? []).map(choice), ...(sheet.actions ?? []).map(action));
  element('plot').replaceChildren(...(sheet.plot ? plot(sheet.plot) : []));
  element('tables').replaceChildren(...sheet.tables.filter(each => each.rows.length).map(table));
  element('log').hidden = !sheet.log;
  element('text').textContent = sheet.log;
}

function choice({ name, label, value, options }: Choice): HTMLElement {
  const box = made('select');
  box.id = `choice-${name}`;
  for (const [each, text] of options) {
    const option = made('option', text);
    option.value = each;
    box.append(option);
  }
  box.value = value;
  box.addEventListener('change', () => send({ type: 'choose', name, value: box.value }));
  // In a closed list each arrow key would change the choice and start a job, so arrows open it and Enter chooses.
  box.addEventListener('keydown', event => {
    if (!event.key.startsWith('Arrow')) return;
    event.preventDefault();
    box.showPicker();
  });
  const whole = made('label', label);
  whole.append(box);
  return whole;
}

function action([name, label]: [string, string]): HTMLElement {
  const button = made('button', label, 'main');
  button.id = `action-${name}`;
  button.addEventListener('click', () => send({ type: 'choose', name, value: '' }));
  return button;
}

function table({ title, columns, rows: lines }: Table): HTMLElement {
  const section = made('section');
  const body = made('tbody');
  const head = made('tr');
  for (const { label, numeric } of columns) head.append(made('th', label, numeric ? 'numeric' : ''));
  for (const line of lines) body.append(...tableRow(line, columns));
  const whole = made('table');
  const top = made('thead');
  top.append(head);
  whole.append(top, body);
  section.append(made('h2', title), whole);
  return section;
}

function tableRow(line: Row, columns: Table['columns']): HTMLElement[] {
  const result = made('tr', '', line.tone);
  line.cells.forEach((cell, index) => {
    const box = made('td', cell, columns[index]?.numeric ? 'numeric' : '');
    box.title = cell;
    result.append(box);
  });
  const all = [result];
  if (line.note) {
    const note = made('tr', '', `note ${line.tone}`);
    const box = made('td', line.note);
    box.colSpan = columns.length;
    note.append(box);
    all.push(note);
  }
  if (line.nodes.length) {
    result.tabIndex = 0;
    for (const each of all) {
      each.classList.add('link');
      each.addEventListener('click', () => pick(line.nodes, false));
      each.addEventListener('dblclick', () => pick(line.nodes, true));
    }
    result.addEventListener('keydown', event => { if (event.key === 'Enter') pick(line.nodes, true); });
    rows.push({ element: result, nodes: line.nodes });
  }
  return all;
}

function pick(nodes: string[], focus: boolean): void {
  select(nodes, false);
  send({ type: 'reveal', names: nodes, focus });
}

/** Marks the rows of these nodes; a row about several nodes, such as a part, is marked if all of them are. */
function select(names: string[], reveal: boolean): void {
  const wanted = new Set(names);
  let first: HTMLElement | undefined;
  for (const { element: row, nodes } of rows) {
    const marked = nodes.every(name => wanted.has(name));
    row.classList.toggle('selected', marked);
    if (marked && nodes.length === 1) first ??= row;
  }
  if (!reveal || !first) return;
  const { top, bottom } = first.getBoundingClientRect();
  // Vertically only: scrollIntoView would also scroll a wide table sideways.
  if (top < 60) window.scrollBy(0, top - 60);
  else if (bottom > window.innerHeight) window.scrollBy(0, bottom - window.innerHeight + 20);
}

const SHAPES = new Set(['svg', 'g', 'rect', 'path', 'text', 'line']);
const ATTRIBUTES = new Set(['viewBox', 'x', 'y', 'width', 'height', 'rx', 'fill', 'd', 'stroke', 'stroke-width', 'text-anchor', 'font-size', 'opacity', 'aria-label', 'role']);

/** The plot as elements of this document; only shapes are taken over. */
function plot(text: string): SVGElement[] {
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  return parsed.localName === 'svg' ? [copy(parsed)] : [];
}

function copy(source: Element): SVGElement {
  const result = document.createElementNS('http://www.w3.org/2000/svg', source.localName);
  for (const { name, value } of source.attributes) if (ATTRIBUTES.has(name)) result.setAttribute(name, value);
  for (const child of source.children) if (SHAPES.has(child.localName)) result.append(copy(child));
  if (!source.children.length) result.textContent = source.textContent;
  return result;
}

window.addEventListener('message', event => {
  const message: unknown = event.data;
  if (!isToSheet(message)) return;
  switch (message.type) {
    case 'running':
      showRunning(message.title, message.text, message.percent);
      break;
    case 'sheet':
      showSheet(message.sheet);
      break;
    case 'failed':
      show('failed', message.title);
      element('reason').textContent = message.reason;
      break;
    case 'select':
      select(message.names, true);
      break;
  }
});
element('cancel').addEventListener('click', () => send({ type: 'cancel' }));
element('again').addEventListener('click', () => send({ type: 'again' }));
send({ type: 'ready' });
