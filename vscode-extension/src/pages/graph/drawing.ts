/** Interaction with the drawing: selection, search and focus, by mouse and keyboard. */
import type { GraphView, NodeInfo } from '../../protocol/graph_page';
import type { Heat } from './heat';

export interface DrawingEvents {
  /** The user selected these nodes; `open` to go to their source. */
  picked(names: string[], open: boolean): void;
  /** The keyboard focus is at this box now, which may be out of sight. */
  reached(box: SVGGElement): void;
  /** The user opens or closes a group. */
  toggled(id: string): void;
}

/** Keys along the drawing's direction follow the values; keys across it go through all boxes in graph order. */
type Step = 'inputs' | 'users' | 'before' | 'after';
const DOWNWARDS: Record<string, Step | undefined> = { ArrowUp: 'inputs', ArrowDown: 'users', ArrowLeft: 'before', ArrowRight: 'after' };
const TO_THE_RIGHT: Record<string, Step | undefined> = { ArrowLeft: 'inputs', ArrowRight: 'users', ArrowUp: 'before', ArrowDown: 'after' };
const KEYS = 'two arrow keys follow the values, the other two go through all nodes in order, Home and End to the first and the last; Enter goes to the source or opens a module, Backspace closes the surrounding module';

export class Drawing {
  private readonly boxes = new Map<string, SVGGElement>();
  private readonly home = new Map<string, string>();
  private readonly nodes: Map<string, NodeInfo>;
  private focused: string | undefined;

  constructor(readonly svg: SVGSVGElement, readonly view: GraphView, private readonly events: DrawingEvents) {
    this.nodes = new Map(view.nodes.map(node => [node.name, node]));
    svg.setAttribute('role', 'tree');
    svg.setAttribute('aria-multiselectable', 'true');
    svg.setAttribute('aria-label', `Graph of ${view.target}: ${KEYS}`);
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
    const fits = (texts: string[]) => wanted !== '' && texts.some(text => text.toLowerCase().includes(wanted));
    const boxes = Object.entries(this.view.elements).flatMap(([id, names]) => {
      const box = this.boxes.get(id);
      return box ? [{ id, box, nodes: names.flatMap(name => this.nodes.get(name) ?? []) }] : [];
    });
    // The operator counts before the name: in a U-Net every path contains "conv".
    const ways = [
      (node: NodeInfo) => [node.op === 'call_module' ? node.type : node.op.startsWith('call') ? node.target : ''],
      (node: NodeInfo) => [node.name, node.target, node.module],
      (node: NodeInfo) => [node.value],
    ];
    const found = new Set<SVGGElement>();
    for (const way of ways) {
      if (found.size) break;
      for (const { id, box, nodes } of boxes) {
        if (nodes.some(node => fits(way(node))) || (way === ways[1] && fits([id.slice(2)]))) found.add(box);
      }
    }
    for (const { box } of boxes) box.classList.toggle('found', found.has(box));
    this.svg.classList.toggle('searching', wanted !== '');
    return [...found];
  }

  /** Sets a class on the boxes with such nodes, and removes it from all others. */
  mark(name: string, holds: (names: string[]) => boolean): void {
    for (const [id, box] of this.boxes) box.classList.toggle(name, holds(this.view.elements[id] ?? []));
  }

  /** Colours each box by its share of the most expensive one; undefined restores colours by kind of operator. */
  heat(heat: Heat | undefined): void {
    this.svg.classList.toggle('heat', heat !== undefined);
    for (const [id, box] of this.boxes) {
      const amount = heat?.amounts.get(id);
      if (amount === undefined || !heat) box.style.removeProperty('--heat');
      else box.style.setProperty('--heat', `${heat.most ? Math.round((65 * amount) / heat.most) : 0}%`);
    }
  }

  names(box: Element): string[] {
    return this.view.elements[box.id] ?? [];
  }

  /** The nodes of the focused box; undefined if the focus is elsewhere. */
  held(): string[] | undefined {
    const active = document.hasFocus() && this.svg.contains(document.activeElement) ? document.activeElement : null;
    return active ? this.names(active) : undefined;
  }

  /** Focuses the first drawn one of these nodes, perhaps as part of a collapsed module. */
  hold(names: string[]): void {
    const id = names.map(name => this.home.get(name)).find(each => each !== undefined);
    if (id) this.boxes.get(id)?.focus({ preventScroll: true });
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
    box.setAttribute('role', 'treeitem');
    box.setAttribute('aria-label', this.label(box.id));
    box.setAttribute('tabindex', '-1');
    if (group) box.setAttribute('aria-expanded', 'false');
    box.addEventListener('click', () => { box.focus({ preventScroll: true }); this.events.picked(this.names(box), false); });
    box.addEventListener('dblclick', event => {
      event.stopPropagation();
      if (group) this.events.toggled(box.id);
      else this.events.picked(this.names(box), true);
    });
    box.addEventListener('focus', () => {
      this.setFocusable(box.id);
      if (box.matches(':focus-visible')) this.events.reached(box); // not for clicks, where the box is visible
    });
  }

  private label(id: string): string {
    const group = this.view.groups[id];
    if (group) return `${group.title}, ${group.nodes} nodes, closed`;
    const node = this.nodes.get(this.view.elements[id]?.[0] ?? '');
    if (!node) return id;
    const problem = this.boxes.get(id)?.classList.contains('problem') ? ', has a problem' : '';
    const stays = node.lowering ? ', stays in PyTorch when lowered' : '';
    return [node.name, node.type || node.target, node.value].filter(Boolean).join(', ') + problem + stays;
  }

  /** Only one box is in the tab order, so that Tab leaves the drawing. */
  private setFocusable(id: string | undefined): void {
    if (this.focused) this.boxes.get(this.focused)?.setAttribute('tabindex', '-1');
    this.focused = id;
    if (id) this.boxes.get(id)?.setAttribute('tabindex', '0');
  }

  private key(event: KeyboardEvent): void {
    const box = event.target instanceof SVGGElement ? event.target : undefined;
    if (!box || !this.view.elements[box.id]) return;
    const step = (this.view.direction === 'LR' ? TO_THE_RIGHT : DOWNWARDS)[event.key];
    if (step) {
      const next = step === 'inputs' || step === 'users' ? this.neighbour(box.id, step) : this.beside(box.id, step);
      if (next) {
        next.focus({ preventScroll: true });
        this.events.picked(this.names(next), false);
      }
    } else if (event.key === 'Home' || event.key === 'End') {
      const ids = Object.keys(this.view.elements).filter(id => this.boxes.has(id));
      const end = this.boxes.get(ids[event.key === 'Home' ? 0 : ids.length - 1]);
      end?.focus({ preventScroll: true });
      if (end) this.events.picked(this.names(end), false);
    } else if (event.key === 'Enter') {
      if (this.view.groups[box.id]) this.events.toggled(box.id);
      else this.events.picked(this.names(box), true);
    } else if (event.key === 'Backspace') {
      const around = this.around(box);
      if (around) this.events.toggled(around);
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

  private beside(id: string, step: 'before' | 'after'): SVGGElement | undefined {
    const ids = Object.keys(this.view.elements);
    return this.boxes.get(ids[ids.indexOf(id) + (step === 'before' ? -1 : 1)]);
  }

  /** The innermost open module that a box is drawn in. */
  private around(box: SVGGElement): string | undefined {
    const inner = box.getBoundingClientRect();
    const [x, y] = [inner.left + inner.width / 2, inner.top + inner.height / 2];
    let found: { id: string; size: number } | undefined;
    for (const [id, other] of this.boxes) {
      if (!other.classList.contains('cluster') || !this.view.groups[id]) continue;
      const { left, right, top, bottom } = other.getBoundingClientRect();
      const size = (right - left) * (bottom - top);
      if (left < x && x < right && top < y && y < bottom && (!found || size < found.size)) found = { id, size };
    }
    return found?.id;
  }
}
