/** The whole drawing in a corner, with the visible part marked: a click or drag there moves the drawing. */
import type { Sight, Viewport } from './viewport';

/** The map's maximum width and height, as shares of the drawing's area. */
const WIDTH = 0.3;
const HEIGHT = 0.45;
const LARGEST = 200;
/** The minimum size for a long row of boxes, so that it can be clicked. */
const NARROWEST = 28;

interface Box { x: number; y: number; width: number; height: number; element: Element }

export class Minimap {
  private boxes: Box[] = [];
  /** Pixels of the map for one of the drawing, across and down. */
  private scale: [number, number] = [1, 1];
  private sight: Sight | undefined;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly viewport: Viewport) {
    viewport.onMove(sight => { this.sight = sight; this.draw(); });
    canvas.addEventListener('pointerdown', event => this.drag(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement as HTMLElement);
  }

  /** Copies the boxes of a new drawing that is already in the page. */
  show(svg: SVGSVGElement | undefined): void {
    const all = svg?.getBoundingClientRect();
    const scale = all && this.sight ? all.width / this.sight.size.width : 1;
    this.boxes = [...svg?.querySelectorAll('g.node') ?? []].map(element => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return { element, x: (left - all!.left) / scale, y: (top - all!.top) / scale, width: width / scale, height: height / scale };
    });
    this.draw();
  }

  /** Paints it if some of the drawing is out of sight. */
  draw(): void {
    const { canvas, sight } = this;
    canvas.hidden = !sight || !this.boxes.length || sight.whole;
    if (!sight || canvas.hidden) return;
    const room = canvas.parentElement as HTMLElement;
    const { width, height } = sight.size;
    const scale = Math.min(Math.min(LARGEST, room.clientWidth * WIDTH) / width, Math.min(LARGEST * 2, room.clientHeight * HEIGHT) / height);
    const [across, down] = [Math.max(NARROWEST, width * scale), Math.max(NARROWEST, height * scale)];
    this.scale = [across / width, down / height];
    const [x, y] = this.scale;
    canvas.style.width = `${across}px`;
    canvas.style.height = `${down}px`;
    canvas.width = across * devicePixelRatio;
    canvas.height = down * devicePixelRatio;
    const context = canvas.getContext('2d');
    if (!context) return;
    context.scale(devicePixelRatio, devicePixelRatio);
    const style = getComputedStyle(canvas);
    for (const box of this.boxes) {
      context.fillStyle = style.getPropertyValue(box.element.classList.contains('selected') || box.element.classList.contains('found') ? '--accent' : '--quiet');
      context.fillRect(box.x * x, box.y * y, Math.max(1.5, box.width * x), Math.max(1.5, box.height * y));
    }
    context.strokeStyle = style.getPropertyValue('--accent');
    context.lineWidth = 1.5;
    const [left, right] = [sight.x * x, (sight.x + sight.width) * x].map(each => Math.min(Math.max(each, 1), across - 1));
    const [top, bottom] = [sight.y * y, (sight.y + sight.height) * y].map(each => Math.min(Math.max(each, 1), down - 1));
    context.strokeRect(left, top, right - left, bottom - top);
  }

  private drag(start: PointerEvent): void {
    if (start.button !== 0) return;
    start.preventDefault(); // keep the keyboard focus
    const { canvas } = this;
    const move = (event: PointerEvent) => {
      const { left, top } = canvas.getBoundingClientRect();
      this.viewport.centre((event.clientX - left) / this.scale[0], (event.clientY - top) / this.scale[1]);
    };
    const end = () => {
      canvas.removeEventListener('pointermove', move);
      canvas.removeEventListener('pointerup', end);
      canvas.removeEventListener('pointercancel', end);
    };
    canvas.setPointerCapture(start.pointerId);
    canvas.addEventListener('pointermove', move);
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', end);
    move(start);
  }
}
