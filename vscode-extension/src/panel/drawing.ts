/** The drawing as something to use: what is selected, found and focused, by mouse and by keyboard. */
import type { GraphView, NodeInfo } from '../protocol/panel';

export interface DrawingEvents {
  /** The user picked these nodes; `open` when they want to go to their source. */
  picked(names: string[], open: boolean): void;
  /** The user opens or closes a group. */
  toggled(id: string): void;
}

const STEP: Record<string, 'inputs' | 'users' | undefined> = { ArrowUp: 'inputs', ArrowLeft: 'inputs', ArrowDown: 'users', ArrowRight: 'users' };

export class Drawing {
  private readonly boxes = new Map<string, SVGGElement>();
  private readonly home = new Map<string, string>();
  private readonly nodes: Map<string, NodeInfo>;
  private focused: string | undefined;

  constructor(readonly svg: SVGSVGElement, readonly view: GraphView, private readonly events: DrawingEvents) {
    this.nodes = new Map(view.nodes.map(node => [node.name, node]));
    svg.setAttribute('role', 'application');
    svg.setAttribute('aria-label', `Graph of ${view.target}: arrow keys follow the values, Enter goes to the source`);
    for (const [id, names] of Object.entries(view.elements)) for (const name of names) this.home.set(name, id);
    for (const group of svg.querySelectorAll<SVGGElement>('g.node, g.cluster')) this.prepare(group);
    svg.addEventListener('keydown', event => this.key(event));
    this.setFocusable(Object.keys(view.elements)[0]);
  }

  /** Marks the boxes of these nodes and returns the first of them. */
  select(names: string[]): SVGGElement | undefined {
    const ids = new Set(names.map(name => this.home.get(name)));
    let first: SVGGElement | undefined;
    for (const [id, box] of this.boxes) {
      const selected = ids.has(id);
      box.classList.toggle('selected', selected);
      if (box.classList.contains('node')) box.setAttribute('aria-selected', String(selected));
      if (selected && !first) first = box;
    }
    if (first) this.setFocusable(first.id);
    return first;
  }

  /** Dims what does not match and returns the boxes that do, in the order of the graph; '' ends the search. */
  search(query: string): SVGGElement[] {
    const wanted = query.trim().toLowerCase();
    const found: SVGGElement[] = [];
    for (const [id, names] of Object.entries(this.view.elements)) {
      const box = this.boxes.get(id);
      if (!box) continue;
      const matches = wanted !== '' && (names.some(name => this.matches(name, wanted)) || id.slice(2).toLowerCase().includes(wanted));
      box.classList.toggle('found', matches);
      if (matches) found.push(box);
    }
    this.svg.classList.toggle('searching', wanted !== '');
    return found;
  }

  names(box: Element): string[] {
    return this.view.elements[box.id] ?? [];
  }

  private matches(name: string, wanted: string): boolean {
    const node = this.nodes.get(name);
    return !!node && [node.name, node.target, node.type, node.module, node.value].some(text => text.toLowerCase().includes(wanted));
  }

  private prepare(box: SVGGElement): void {
    this.boxes.set(box.id, box);
    const group = this.view.groups[box.id];
    if (box.classList.contains('cluster')) {
      if (!group) return;
      const title = box.querySelector('text');
      title?.classList.add('toggle');
      title?.addEventListener('click', event => { event.stopPropagation(); this.events.toggled(box.id); });
      box.addEventListener('dblclick', event => { event.stopPropagation(); this.events.toggled(box.id); });
      return;
    }
    box.setAttribute('role', group ? 'treeitem' : 'option');
    box.setAttribute('aria-label', this.label(box.id));
    box.setAttribute('tabindex', '-1');
    if (group) box.setAttribute('aria-expanded', 'false');
    box.addEventListener('click', () => { box.focus({ preventScroll: true }); this.events.picked(this.names(box), false); });
    box.addEventListener('dblclick', event => {
      event.stopPropagation();
      if (group) this.events.toggled(box.id);
      else this.events.picked(this.names(box), true);
    });
    box.addEventListener('focus', () => this.setFocusable(box.id));
  }

  private label(id: string): string {
    const group = this.view.groups[id];
    if (group) return `${group.title}, ${group.nodes} nodes, closed`;
    const node = this.nodes.get(this.view.elements[id]?.[0] ?? '');
    if (!node) return id;
    const problem = this.boxes.get(id)?.classList.contains('problem') ? ', has a problem' : '';
    return [node.name, node.type || node.target, node.value].filter(Boolean).join(', ') + problem;
  }

  /** One box takes part in the tab order, so that Tab leaves the drawing. */
  private setFocusable(id: string | undefined): void {
    if (this.focused) this.boxes.get(this.focused)?.setAttribute('tabindex', '-1');
    this.focused = id;
    if (id) this.boxes.get(id)?.setAttribute('tabindex', '0');
  }

  private key(event: KeyboardEvent): void {
    const box = event.target instanceof SVGGElement ? event.target : undefined;
    if (!box || !this.view.elements[box.id]) return;
    const direction = STEP[event.key];
    if (direction) {
      const next = this.neighbour(box.id, direction);
      if (next) {
        next.focus({ preventScroll: true });
        this.events.picked(this.names(next), false);
      }
    } else if (event.key === 'Enter') {
      if (this.view.groups[box.id]) this.events.toggled(box.id);
      else this.events.picked(this.names(box), true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private neighbour(id: string, direction: 'inputs' | 'users'): SVGGElement | undefined {
    for (const name of this.view.elements[id]) {
      for (const other of this.nodes.get(name)?.[direction] ?? []) {
        const home = this.home.get(other);
        if (home && home !== id) return this.boxes.get(home);
      }
    }
    return undefined;
  }
}
