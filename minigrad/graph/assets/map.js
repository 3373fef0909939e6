// The map: all of a drawing that is larger than its window, and in it a rectangle, the window. It is for
// pointers; keys have arrows and search.

import { h } from "./dom.js";
import { opAt } from "./progress.js";

const MAP_WIDTH = 110,
  MAP_MARGIN = 10,
  LARGER = 1.3; // how much larger than the window a drawing with a map is

/** A colour of the style sheet, in the present theme. */
function colour(name) {
  const probe =
    document.getElementById("map-colour") ??
    document.body.appendChild(h("span", { id: "map-colour", hidden: true }));
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

export class OverviewMap {
  constructor(view) {
    this.view = view;
    this.canvas = h("canvas", {
      id: "map",
      "aria-hidden": "true",
      onpointerdown: event => this.onPointer(event),
      onpointermove: event => event.buttons && this.onPointer(event),
    });
    this.picture = document.createElement("canvas");
    this.scale = 0;
  }

  /** Redraw the scene: frames, and boxes in their colours; the op of the walk stands out. */
  draw(graph, state) {
    const { scene, size } = this.view;
    const most = Math.max(60, size.height - 2 * MAP_MARGIN);
    const widest = Math.min(MAP_WIDTH, size.width / 8);
    this.scale = Math.min(widest / scene.width, most / scene.height);
    const pen = this.fit(this.picture);
    for (const frame of scene.frames) this.block(pen, frame, colour("paper"), colour("border"));
    const current = state.walk && opAt(state.walk);
    for (const box of scene.boxes) {
      const { fill, stroke } = getComputedStyle(document.querySelector(`#${box.id} .body`));
      this.block(pen, box, fill, stroke);
    }
    const at = current && scene.boxes.find(box => box.id === `v${current.index}`);
    if (at) this.block(pen, { ...at, x: at.x - 8, width: at.width + 16 }, colour("hot"), colour("hot"));
    this.frame();
  }

  /** The space at the right that it takes where it is shown. */
  get width() {
    return this.view.scene.width * this.scale + 2 * MAP_MARGIN;
  }

  fit(canvas) {
    const { scene } = this.view;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.ceil(scene.width * this.scale * ratio) + 2;
    canvas.height = Math.ceil(scene.height * this.scale * ratio) + 2;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 1, 1);
    return pen;
  }

  block(pen, { x, y, width, height }, fill, stroke) {
    const rectangle = [x, y, width, height].map(n => n * this.scale);
    pen.fillStyle = fill;
    pen.fillRect(...rectangle);
    pen.strokeStyle = stroke;
    pen.lineWidth = 0.5;
    pen.strokeRect(...rectangle);
  }

  /** Show the picture with a rectangle around the visible part. */
  frame() {
    const { view } = this;
    const { width, height } = view.size;
    const { scene } = view;
    const larger = Math.max((scene.width * view.scale) / width, (scene.height * view.scale) / height);
    this.canvas.hidden = !(larger > LARGER) || !this.scale;
    if (this.canvas.hidden) return;
    const pen = this.fit(this.canvas);
    this.canvas.style.width = `${Math.ceil(scene.width * this.scale)}px`;
    this.canvas.style.height = `${Math.ceil(scene.height * this.scale)}px`;
    pen.save();
    pen.resetTransform();
    pen.drawImage(this.picture, 0, 0);
    pen.restore();
    const [x, y] = [-view.x / view.scale, -view.y / view.scale].map(n => Math.max(0, n * this.scale));
    const right = Math.min(scene.width, (width - view.x) / view.scale) * this.scale;
    const bottom = Math.min(scene.height, (height - view.y) / view.scale) * this.scale;
    pen.globalAlpha = 0.14;
    pen.fillStyle = colour("accent");
    pen.fillRect(x, y, right - x, bottom - y);
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(x, y, right - x, bottom - y);
  }

  /** The window goes to where the map was pressed. */
  onPointer(event) {
    event.preventDefault();
    event.stopPropagation();
    if (event.type === "pointerdown") this.canvas.setPointerCapture(event.pointerId);
    const { view } = this;
    const { left, top } = this.canvas.getBoundingClientRect();
    view.center((event.clientX - left) / this.scale, (event.clientY - top) / this.scale);
  }
}
