// The view: moving the drawing, zooming, and bringing a box into view. A view is a corner (x, y) and a scale.

import { HEADER } from "./placing.js";

export const SMALLEST = 0.02,
  LARGEST = 3,
  READABLE = 0.9,
  LEGIBLE = 0.3,
  EDGE = 16, // around the drawing
  STEP = 60;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class View {
  constructor(section) {
    this.section = section;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.scene = null;
    this.pointers = new Map();
    this.isFitted = false; // true after fit(), until the user moves the view
    section.addEventListener("wheel", event => this.onWheel(event), { passive: false });
    section.addEventListener("pointerdown", event => this.onDown(event));
    section.addEventListener("pointermove", event => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"])
      section.addEventListener(name, event => this.pointers.delete(event.pointerId));
    section.addEventListener(
      "click",
      event => {
        if (this.moved) event.stopPropagation();
      },
      true,
    );
    new ResizeObserver(() => this.scene && (this.isFitted ? this.fit() : this.apply())).observe(section);
  }

  get size() {
    const { width, height } = document.getElementById("canvas").getBoundingClientRect();
    return { width, height };
  }

  apply(smooth = false) {
    const world = document.getElementById("world");
    if (!world) return;
    world.classList.toggle("smooth", smooth && !calm.matches);
    world.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.isFitted = false;
  }

  /** The scale at which a scene fills the window. */
  scaleOf(scene) {
    const { width, height } = this.size;
    return Math.min(1.25, (width - 2 * EDGE) / scene.width, (height - 2 * EDGE) / scene.height);
  }

  /** Show the whole graph. */
  fit(smooth = false) {
    const { width, height } = this.size;
    this.scale = this.scaleOf(this.scene);
    this.x = (width - this.scene.width * this.scale) / 2;
    this.y = (height - this.scene.height * this.scale) / 2;
    this.apply(smooth);
    this.isFitted = true;
  }

  /** At the start: the whole graph, or its beginning, if that is all that can be read. */
  open() {
    this.fit();
    if (this.scale >= LEGIBLE) return;
    const { width } = this.size;
    this.scale = Math.min(READABLE, Math.max(LEGIBLE, (width - 2 * EDGE) / this.scene.width));
    this.x = Math.max(EDGE, (width - this.scene.width * this.scale) / 2);
    this.y = EDGE;
    this.apply();
  }

  /** Show a point of the scene in the middle. */
  center(x, y) {
    const { width, height } = this.size;
    this.x = width / 2 - x * this.scale;
    this.y = height / 2 - y * this.scale;
    this.apply();
  }

  /** The box nearest to the middle of what is seen. */
  middleBox() {
    const { width, height } = this.size;
    const far = box =>
      Math.hypot(
        this.x + (box.x + box.width / 2) * this.scale - width / 2,
        this.y + (box.y + box.height / 2) * this.scale - height / 2,
      );
    return this.scene.boxes.reduce((best, box) => (best && far(best) <= far(box) ? best : box), null);
  }

  /** In print the whole graph fills the page. */
  print(isOn) {
    const canvas = document.getElementById("canvas");
    if (isOn) canvas.setAttribute("viewBox", `-9 -14 ${this.scene.width + 18} ${this.scene.height + 23}`);
    else canvas.removeAttribute("viewBox");
    if (isOn) document.getElementById("world").style.transform = "none";
    else this.apply();
  }

  zoom(factor, at = null) {
    const { width, height } = this.size;
    const center = at ?? { x: width / 2, y: height / 2 };
    const scale = Math.min(LARGEST, Math.max(SMALLEST, this.scale * factor));
    this.x = center.x - ((center.x - this.x) * scale) / this.scale;
    this.y = center.y - ((center.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.apply();
  }

  showsAll() {
    const { width, height } = this.size;
    const [right, bottom] = [this.x + this.scene.width * this.scale, this.y + this.scene.height * this.scale];
    return this.x >= 0 && this.y >= 0 && right <= width && bottom <= height;
  }

  /** Move so that a box and a margin are visible; nothing if they are. */
  bring(box, smooth = true) {
    if (this.showsAll()) return;
    const { width, height } = this.size;
    if (this.scale < LEGIBLE) this.zoom(READABLE / this.scale);
    const margin = Math.min(60, width / 8, height / 8);
    this.x += outside(this.x + box.x * this.scale, box.width * this.scale, margin, width);
    this.y += outside(this.y + box.y * this.scale, box.height * this.scale, margin, height);
    this.apply(smooth);
  }

  /** Keep a box where it is on the screen, though the layout around it changed. */
  hold(before, after) {
    this.x += (before.x - after.x) * this.scale;
    this.y += (before.y - after.y) * this.scale;
    this.apply();
  }

  /** Within another page, such as a notebook, a wheel without Ctrl scrolls that page. */
  onWheel(event) {
    if (window !== window.parent && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = this.section.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0015)), {
      x: event.clientX - left,
      y: event.clientY - top,
    });
  }

  onDown(event) {
    if (event.button !== 0 || event.target.closest("select, ul, button")) return;
    this.moved = false;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** One finger moves, two zoom; a small move is still a click. */
  onMove(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    if (!this.moved && Math.hypot(dx, dy) < 4) return;
    if (!this.moved) this.section.setPointerCapture(event.pointerId);
    this.moved = true;
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) this.pinch(last, event, other);
    else this.move(dx, dy);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  pinch(last, event, other) {
    const { left, top } = this.section.getBoundingClientRect();
    const apart = point => Math.hypot(point.x - other.x, point.y - other.y);
    const now = { x: event.clientX, y: event.clientY };
    this.zoom(apart(now) / Math.max(1, apart(last)), { x: other.x - left, y: other.y - top });
  }
}

/** How far something must move to be within a length, with a margin; something larger shows its beginning. */
function outside(start, length, margin, extent) {
  if (length > extent - 2 * margin)
    return start > margin || start + length < extent - margin ? margin - start : 0;
  if (start < margin) return margin - start;
  return Math.min(0, extent - margin - (start + length));
}

/** The nearest box in a direction, with a preference for straight ahead. */
export function nextBox(boxes, from, [dx, dy]) {
  const middle = box => ({
    x: box.x + box.width / 2,
    y: box.kind === "frame" ? box.y + HEADER / 2 : box.y + box.height / 2,
  });
  const here = middle(from);
  let best = null,
    least = Infinity;
  for (const box of boxes) {
    const there = middle(box);
    const ahead = (there.x - here.x) * dx + (there.y - here.y) * dy;
    const aside = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
    const far = ahead + 2 * aside;
    if (box.id !== from.id && ahead > 1 && far < least) [best, least] = [box, far];
  }
  return best;
}
