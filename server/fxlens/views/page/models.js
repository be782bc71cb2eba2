/**
 * The table of models: sorted, filtered, and each row with its details. Independent of its host; every text is shown
 * as plain text.
 *
 * @typedef {{ capture: string, text: string, tone: string, reason: string }} Verdict
 * @typedef {{ title: string, diff: string }} Proposal
 * @typedef {{ code: string, severity: string, message: string, place: string, cell: number | null, line: number, character: number,
 *   captures: string[], notes: string[], fixes: Proposal[] }} Problem
 * @typedef {{ name: string, place: string, uri: string, cell: number | null, line: number, role: string, reason: string,
 *   construct: string[], inputs: string[], verdicts: Verdict[], problems: Problem[], nodes: number, parameters: number | null,
 *   flops: number | null, graph: string }} Row
 * @typedef {{ open?: (row: Row, at: Row | Problem, character: number) => void, graph?: (row: Row) => void }} Host
 * @typedef {{ label: string, numeric?: boolean, value: (row: Row) => string | number | null,
 *   cell: (row: Row) => Node | string }} Column
 * @typedef {{ row: Row, line: HTMLTableRowElement, details: HTMLTableRowElement | undefined, words: string }} Entry
 */

const CAPTURES = ['torch.fx', 'torch.export', 'torch.compile', 'strict', 'sizes'];
const TONES = ['bad', 'partly', 'good', 'none'];
const GRADES = ['error', 'warning', 'info', 'hint'];
/** @type {Record<string, (row: Row) => boolean>} */
const SHOWN = {
  'All classes': () => true,
  'With problems': row => row.problems.length > 0,
  'Captured': row => Boolean(row.verdicts.length) && row.verdicts.every(each => each.tone === 'good'),
  'Not captured': row => row.verdicts.some(each => each.tone === 'bad' || each.tone === 'partly'),
  'Not judged': row => !SHOWN['Not captured'](row) && row.verdicts.some(each => each.tone === 'none'),
};
const SVG = 'http://www.w3.org/2000/svg';
const SHAPES = new Set(['svg', 'g', 'path', 'polygon', 'polyline', 'ellipse', 'text']);
const ATTRIBUTES = new Set(['class', 'd', 'points', 'x', 'y', 'cx', 'cy', 'rx', 'ry', 'transform', 'viewBox', 'width', 'height', 'text-anchor', 'font-family', 'font-size']);

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {string} [className]
 * @param {...(Node | string)} content
 */
function made(name, className = '', ...content) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

/** `1.2 M`: three significant digits. @param {number} value */
function amount(value) {
  for (const [power, prefix] of /** @type {[number, string][]} */ ([[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])) {
    if (value >= power) return `${Number((value / power).toPrecision(3))} ${prefix}`;
  }
  return String(value);
}

/** The drawing as elements of this document: only shapes are taken over. @param {string} packed SVG, deflated, in base64 */
export async function picture(packed) {
  const bytes = Uint8Array.from(atob(packed), char => char.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  return parsed.localName === 'svg' ? copy(parsed) : undefined;
}

/** @param {Element} source @returns {Element} */
function copy(source) {
  const result = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) if (ATTRIBUTES.has(name)) result.setAttribute(name, value);
  for (const child of source.children) if (SHAPES.has(child.localName)) result.append(copy(child));
  if (source.localName === 'text') result.textContent = source.textContent;
  return result;
}

export class Models {
  /** @param {HTMLElement} root @param {Host} host */
  constructor(root, host) {
    this.host = host;
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {{ label: string, down: boolean } | undefined} */
    this.order = undefined;
    this.search = Object.assign(made('input'), { type: 'search', placeholder: 'Filter by class, file, code or message' });
    this.search.setAttribute('aria-label', 'Filter');
    this.choice = made('select', '', ...Object.keys(SHOWN).map(name => new Option(name)));
    this.choice.setAttribute('aria-label', 'Which classes');
    this.count = made('output');
    this.head = made('tr');
    this.body = made('tbody');
    this.about = made('footer');
    const tools = made('div', 'tools', this.search, this.choice, this.count);
    root.replaceChildren(tools, made('div', 'table', made('table', '', made('thead', '', this.head), this.body)), this.about);
    this.search.addEventListener('input', () => this.show());
    this.choice.addEventListener('change', () => this.show());
    /** @type {Column[]} */
    this.columns = [];
  }

  /** Adds rows; existing ones are unchanged. @param {Row[]} rows */
  add(rows) {
    /** @type {Entry[]} */
    let changed = [];
    for (const row of rows) {
      const words = [row.name, row.place, row.role, row.reason, ...row.construct, ...row.problems.flatMap(each => [each.code, each.message])];
      /** @type {Entry} */
      const entry = { row, line: made('tr'), details: undefined, words: words.join('\n').toLowerCase() };
      entry.line.tabIndex = 0;
      entry.line.setAttribute('aria-expanded', 'false');
      entry.line.onclick = event => { if (!(/** @type {Element} */ (event.target).closest('button'))) this.toggle(entry); };
      entry.line.onkeydown = event => {
        if (event.target !== entry.line || (event.key !== 'Enter' && event.key !== ' ')) return;
        event.preventDefault();
        this.toggle(entry);
      };
      changed.push(entry);
    }
    this.entries.push(...changed);
    const columns = this.layOut();
    if (columns.length !== this.columns.length) {
      this.columns = columns;
      this.head.replaceChildren(...columns.map(column => this.heading(column)));
      changed = this.entries;
      for (const { details } of this.entries) if (details) details.cells[0].colSpan = columns.length;
    }
    for (const { row, line } of changed) {
      line.replaceChildren(...columns.map(column => made('td', column.numeric ? 'numeric' : '', column.cell(row))));
    }
    this.show();
  }

  /** Shows the notes and versions at the end. @param {string[]} notes @param {string[]} versions */
  close(notes, versions) {
    this.about.replaceChildren(...notes.map(note => made('p', 'note', note)), made('p', '', versions.filter(Boolean).join(' · ')));
  }

  /** The columns with content. @returns {Column[]} */
  layOut() {
    const asked = CAPTURES.filter(name => this.entries.some(({ row }) => row.verdicts.some(each => each.capture === name)));
    /** @param {Row} row @param {string} name */
    const verdict = (row, name) => row.verdicts.find(each => each.capture === name);
    // The most important columns come first: in a narrow pane the others need scrolling.
    return [
      { label: 'Class', value: row => row.name, cell: row => this.title(row) },
      ...asked.map(name => /** @type {Column} */ ({
        label: name, value: row => TONES.indexOf(verdict(row, name)?.tone ?? 'none'), cell: row => badge(verdict(row, name)),
      })),
      { label: 'Problems', numeric: true, value: row => row.problems.length, cell: row => problems(row) },
      { label: 'File', value: row => row.place.replace(/\d+$/, line => line.padStart(6, '0')), cell: row => made('span', 'place', row.place) },
      { label: 'Constructed', value: row => row.construct.join(' '), cell: row => origin(row.construct) },
      { label: 'Parameters', numeric: true, value: row => row.parameters, cell: row => (row.parameters === null ? '' : amount(row.parameters)) },
      { label: 'FLOPs', numeric: true, value: row => row.flops, cell: row => (row.flops === null ? '' : amount(row.flops)) },
    ];
  }

  /** @param {Column} column */
  heading(column) {
    const button = made('button', '', column.label);
    button.addEventListener('click', () => {
      const down = this.order?.label === column.label ? !this.order.down : Boolean(column.numeric);
      this.order = { label: column.label, down };
      this.show();
    });
    const head = made('th', column.numeric ? 'numeric' : '', button);
    head.scope = 'col';
    return head;
  }

  /** @param {Row} row */
  title(row) {
    const name = row.name || 'the file itself';
    const { open } = this.host;
    if (!open) return made('strong', '', name);
    const button = made('button', 'link', name);
    button.title = 'Open in the editor';
    button.addEventListener('click', () => open(row, row, 0));
    return button;
  }

  /** Sorts and filters. */
  show() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = SHOWN[this.choice.value];
    const shown = this.entries.filter(({ row, words: all }) => wanted(row) && words.every(word => all.includes(word)));
    const column = this.columns.find(each => each.label === this.order?.label);
    if (column) shown.sort((one, other) => compare(column.value(one.row), column.value(other.row), Boolean(this.order?.down)));
    this.body.replaceChildren(...shown.flatMap(({ line, details }) => (details ? [line, details] : [line])));
    [...this.head.children].forEach((head, index) => {
      const sorted = this.columns[index] === column;
      head.setAttribute('aria-sort', sorted ? (this.order?.down ? 'descending' : 'ascending') : 'none');
    });
    const all = this.entries.length;
    this.count.textContent = shown.length === all ? this.summary() : `${shown.length} of ${all} rows`;
  }

  /** `12 classes: 8 captured, 3 not captured, 1 not judged`. */
  summary() {
    const classes = this.entries.filter(({ row }) => row.name);
    const counts = ['Captured', 'Not captured', 'Not judged'].map(name => /** @type {const} */ ([classes.filter(({ row }) => SHOWN[name](row)).length, name.toLowerCase()]));
    const parts = counts.filter(([count]) => count).map(each => each.join(' '));
    return `${classes.length} ${classes.length === 1 ? 'class' : 'classes'}${parts.length ? `: ${parts.join(', ')}` : ''}`;
  }

  /** @param {Entry} entry */
  toggle(entry) {
    if (entry.details) {
      entry.details.remove();
      entry.details = undefined;
    } else {
      const box = made('td', '', this.details(entry.row));
      box.colSpan = this.columns.length;
      entry.details = made('tr', 'details', box);
      entry.line.after(entry.details);
    }
    entry.line.setAttribute('aria-expanded', String(Boolean(entry.details)));
  }

  /** @param {Row} row */
  details(row) {
    const facts = made('dl');
    /** @param {string} name @param {string | Node} value */
    const fact = (name, value) => { if (value) facts.append(made('dt', '', name), made('dd', '', value)); };
    fact('Role', row.role);
    fact('Constructed', row.construct.length ? origin(row.construct) : '');
    fact('Called with', row.inputs.length ? origin(row.inputs) : '');
    for (const each of row.verdicts) fact(each.capture, each.reason || each.text);
    fact('Graph', row.nodes ? `${row.nodes.toLocaleString('en')} nodes` : '');
    fact('Parameters', row.parameters === null ? '' : `${row.parameters.toLocaleString('en')} in the modules that it calls`);
    fact('FLOPs', row.flops === null ? '' : row.flops.toLocaleString('en'));
    const whole = made('div', 'inside', facts, ...row.problems.map(each => this.problem(row, each)));
    const { graph } = this.host;
    if (graph && row.nodes) {
      const button = made('button', '', 'Show graph');
      button.addEventListener('click', () => graph(row));
      whole.append(button);
    }
    if (row.graph) {
      const box = made('div', 'graph');
      void picture(row.graph).then(drawn => { if (drawn) box.append(drawn); });
      box.tabIndex = 0;
      box.setAttribute('role', 'img');
      box.setAttribute('aria-label', `The graph of ${row.name}`);
      if (row.verdicts.some(each => each.capture === 'torch.fx' && each.tone === 'bad')) {
        whole.append(made('p', 'quiet', 'torch.fx cannot capture this class, so this graph is incomplete.'));
      }
      whole.append(box);
    }
    return whole;
  }

  /** @param {Row} row @param {Problem} problem */
  problem(row, problem) {
    const { open } = this.host;
    const place = open ? made('button', 'link', problem.place) : made('span', 'place', problem.place);
    if (open) place.addEventListener('click', () => open(row, problem, problem.character));
    const head = made('p', '', made('span', `grade ${problem.severity}`, problem.severity), ' ', made('b', '', problem.code), ' ', place);
    const section = made('section', 'finding', head, made('p', 'message', problem.message));
    if (problem.captures.length) head.append(' ', made('span', 'quiet', problem.captures.join(', ')));
    for (const note of problem.notes) section.append(made('p', 'quiet', note));
    for (const { title, diff } of problem.fixes) {
      section.append(made('p', 'fix', `Proven fix: ${title}`), made('pre', '', ...diff.split('\n').map(changed)));
    }
    return section;
  }
}

/** A line of a diff. @param {string} line */
function changed(line) {
  const tone = { '+': 'added', '-': 'removed', '@': 'quiet' }[line[0]] ?? '';
  return made('span', tone, `${line}\n`);
}

/** @param {string[]} pair */
function origin([text = '', source = '']) {
  const shown = made('span', 'origin');
  if (text) shown.append(made('code', '', text), ' ', made('span', 'quiet', source));
  return shown;
}

/** @param {Verdict | undefined} verdict */
function badge(verdict) {
  if (!verdict) return '';
  const shown = made('span', `verdict ${verdict.tone}`, verdict.text);
  shown.title = verdict.reason;
  return shown;
}

/** The number of each grade. @param {Row} row */
function problems(row) {
  const shown = made('span');
  for (const grade of GRADES) {
    const count = row.problems.filter(each => each.severity === grade).length;
    if (!count) continue;
    const mark = made('span', `grade ${grade}`, String(count));
    mark.title = `${count} of severity ${grade}`;
    shown.append(mark);
  }
  return shown;
}

/** Order of two values of a column; unknown values come last. @param {string | number | null} one @param {string | number | null} other @param {boolean} down */
function compare(one, other, down) {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  const order = typeof one === 'string' ? one.localeCompare(String(other)) : one - Number(other);
  return down ? -order : order;
}
