/** Pan and zoom of one SVG inside a scroll-free box: wheel, drag, pinch and keys. */

const MIN = 0.02;
const MARGIN = 24;
const MAX = 4;

/** The visible part, in the drawing's own pixels; `whole` if that is all of it. */
export interface Sight {
  x: number;
  y: number;
  width: number;
  height: number;
  size: { width: number; height: number };
  whole: boolean;
}

export class Viewport {
  private scale = 1;
  private x = 0;
  private y = 0;
  private size = { width: 1, height: 1 };
  private content: SVGSVGElement | undefined;
  private moved = false;
  private moving: (sight: Sight) => void = () => undefined;

  constructor(private readonly box: HTMLElement) {
    box.addEventListener('wheel', event => this.wheel(event), { passive: false });
    box.addEventListener('pointerdown', event => this.drag(event));
    // The click that ends a drag does not count.
    box.addEventListener('click', event => { if (this.moved) event.stopPropagation(); }, { capture: true });
  }

  /** Calls back whenever the visible part changes. */
  onMove(callback: (sight: Sight) => void): void {
    this.moving = callback;
  }

  /** Takes a new drawing of the given size in pixels; with `keep`, keeps the view if something is visible in it; otherwise shows all of it. */
  show(content: SVGSVGElement, width: number, height: number, keep: boolean): void {
    this.content = content;
    this.size = { width, height };
    content.setAttribute('width', String(width));
    content.setAttribute('height', String(height));
    this.box.replaceChildren(content);
    if (keep && this.inSight()) this.apply();
    else this.begin();
  }

  /** Shows all of a drawing if it stays readable, otherwise its top at full width. */
  begin(): void {
    const { across, whole } = this.scales();
    this.place(whole >= 0.45 ? whole : Math.min(across, 1));
  }

  /** Shows the whole drawing at any scale. */
  fit(): void {
    this.place(this.scales().whole);
  }

  /** The scales that fit the width, and the whole drawing. */
  private scales(): { across: number; whole: number } {
    const across = (this.box.clientWidth - MARGIN) / this.size.width;
    return { across, whole: Math.min(across, (this.box.clientHeight - MARGIN) / this.size.height, 1.25) };
  }

  private place(scale: number): void {
    const { clientWidth, clientHeight } = this.box;
    this.scale = clamp(scale);
    this.x = (clientWidth - this.size.width * this.scale) / 2;
    const height = this.size.height * this.scale;
    this.y = height < clientHeight ? (clientHeight - height) / 2 : MARGIN / 2;
    this.apply();
  }

  zoom(factor: number, at?: { x: number; y: number }): void {
    const centre = at ?? { x: this.box.clientWidth / 2, y: this.box.clientHeight / 2 };
    const scale = clamp(this.scale * factor);
    this.x = centre.x - ((centre.x - this.x) * scale) / this.scale;
    this.y = centre.y - ((centre.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  /** Centres a point of the drawing. */
  centre(x: number, y: number): void {
    this.pan(this.box.clientWidth / 2 - this.x - x * this.scale, this.box.clientHeight / 2 - this.y - y * this.scale);
  }

  pan(x: number, y: number): void {
    this.x += x;
    this.y += y;
    this.apply();
  }

  /** Moves so that the element is visible; does nothing if it already is. */
  reveal(element: Element): void {
    const box = this.box.getBoundingClientRect();
    const at = element.getBoundingClientRect();
    const margin = 16;
    const inside = at.left >= box.left + margin && at.right <= box.right - margin &&
      at.top >= box.top + margin && at.bottom <= box.bottom - margin;
    if (inside) return;
    this.pan(box.left + box.width / 2 - (at.left + at.width / 2), box.top + box.height / 2 - (at.top + at.height / 2));
  }

  /** Whether a recognizable part of the drawing would be in the box. */
  private inSight(): boolean {
    const margin = 40;
    const seen = (at: number, length: number, room: number) => Math.min(at + length * this.scale, room) - Math.max(at, 0) > margin;
    return seen(this.x, this.size.width, this.box.clientWidth) && seen(this.y, this.size.height, this.box.clientHeight);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      const box = this.box.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 200), { x: event.clientX - box.left, y: event.clientY - box.top });
    } else {
      this.pan(event.shiftKey ? -event.deltaY : -event.deltaX, event.shiftKey ? 0 : -event.deltaY);
    }
  }

  private drag(start: PointerEvent): void {
    this.moved = false;
    if (start.button !== 0) return;
    let last = { x: start.clientX, y: start.clientY };
    const move = (event: PointerEvent) => {
      if (!this.moved && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 4) return;
      if (!this.moved) this.box.setPointerCapture(start.pointerId);
      this.moved = true;
      this.pan(event.clientX - last.x, event.clientY - last.y);
      last = { x: event.clientX, y: event.clientY };
    };
    const end = () => {
      this.box.removeEventListener('pointermove', move);
      this.box.removeEventListener('pointerup', end);
      this.box.removeEventListener('pointercancel', end);
    };
    this.box.addEventListener('pointermove', move);
    this.box.addEventListener('pointerup', end);
    this.box.addEventListener('pointercancel', end);
  }

  private apply(): void {
    if (!this.content) return;
    this.content.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    const { clientWidth, clientHeight } = this.box;
    const [right, bottom] = [this.x + this.size.width * this.scale, this.y + this.size.height * this.scale];
    this.moving({
      x: -this.x / this.scale, y: -this.y / this.scale, width: clientWidth / this.scale, height: clientHeight / this.scale, size: this.size,
      whole: this.x > -1 && this.y > -1 && right < clientWidth + 1 && bottom < clientHeight + 1,
    });
  }
}

const clamp = (scale: number) => Math.min(MAX, Math.max(MIN, scale));
