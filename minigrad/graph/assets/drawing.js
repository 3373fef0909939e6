// The drawing: SVG made of a layout. Boxes and the names of open parts are buttons, in the order of the
// computation.

import { nameOf, paintOf, shownVertex } from "./data.js";
import { h, s } from "./dom.js";
import { ALL, memberOf, visibleBox } from "./folding.js";
import { formatNumber, heatClass } from "./numbers.js";
import { HEADER, KNOB, LINE, MAP, NAME, PADDING, TAB, TEXT, TITLE, memberNote, tabWidth } from "./placing.js";
import { opAt, sentBy } from "./progress.js";

const BROKEN = "NaN/∞"; // the mark of boxes with non-finite numbers

/** The drawing of a scene; `decorate(box)` says how the walk or a search changes a box: { lines, classes }. */
export function draw(graph, scene, state, decorate, actions) {
  const hot = hotLines(graph, scene, state.walk && opAt(state.walk));
  const world = s(
    "g",
    { id: "world" },
    s(
      "g",
      { class: "frames", "aria-hidden": "true" },
      scene.frames.map(box => drawFrame(graph, state, box)),
    ),
    s(
      "g",
      { class: "lines", "aria-hidden": "true" },
      scene.lines.map(line => drawLine(graph, line, hot.get(line))),
    ),
    s(
      "g",
      { class: "names" },
      scene.frames.map(box => drawFrameName(graph, box, decorate(box), state, actions)),
    ),
    s(
      "g",
      { class: "boxes" },
      scene.boxes.map(box => drawBox(graph, box, decorate(box), state, actions)),
    ),
    s("g", { class: "sent", "aria-hidden": "true" }, state.walk && drawSent(graph, scene, state)),
  );
  return s(
    "svg",
    { id: "canvas", role: "group", "aria-label": "Boxes: move between them with the arrow keys" },
    definitions(),
    world,
  );
}

/** The hatching of what is not finite, and the heads of arrows: forward, and larger, backward. */
function definitions() {
  const stroke = { class: "hatching", "stroke-width": 2.4, "stroke-opacity": 0.55 };
  const hatch = { width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const head = (id, size) =>
    s(
      "marker",
      {
        id,
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerWidth: size,
        markerHeight: size,
        orient: "auto-start-reverse",
        markerUnits: "userSpaceOnUse",
      },
      s("path", { class: id, d: "M0 0.8 L7.4 4 L0 7.2 z" }),
    );
  const pattern = s("pattern", { id: "hatch", ...hatch }, s("line", { y2: 7, ...stroke }));
  return s("defs", pattern, head("arrow", 7), head("hot-arrow", 16));
}

// ---------------------------------------------------------------- lines

/** A piece of a path. `begins` is undefined if the step sends nothing along it, true where that arrives. */
function drawLine(graph, line, begins) {
  const isHot = begins !== undefined;
  const arrow = line.hasArrow && !isHot ? "url(#arrow)" : null;
  const dashed = graph.vertices[line.vertex].kind === "constant" ? "4 3" : null;
  return s("path", {
    class: isHot ? "line hot" : "line",
    d: pathOf(line),
    "marker-end": arrow,
    "marker-start": begins ? "url(#hot-arrow)" : null,
    "stroke-dasharray": dashed,
  });
}

/**
 * Down, across between two rows, down; to a part at the right: down, over, up, over, down. A step of no length
 * would turn an arrow's head.
 */
function pathOf({ x1, y1, x2, y2, bend, side }) {
  if (side !== null) {
    const [low, high] = bend;
    const [down, up] = ["q0 7 7 7", "q0 -7 7 -7"];
    return `M${x1} ${y1}V${low - 7}${down}H${side - 7}q7 0 7 -7V${high + 7}${up}H${x2 - 7}q7 0 7 7V${y2}`;
  }
  if (!bend) return `M${x1} ${y1}V${y2}`;
  const [upper, lower] = bend;
  const middle = (upper + lower) / 2;
  const across = `C${x1} ${middle} ${x2} ${middle} ${x2} ${lower}`;
  return `M${x1} ${y1}${upper > y1 ? `V${upper}` : ""}${across}${y2 > lower ? `V${y2}` : ""}`;
}

/** The lines of an op's inputs, back to the boxes where they begin: line -> whether it begins there. */
function hotLines(graph, scene, vertex) {
  const hot = new Map();
  if (!vertex) return hot;
  const key = (x, y) => `${Math.round(x)},${Math.round(y)}`;
  const ending = new Map();
  for (const line of scene.lines) {
    const at = key(line.x2, line.y2);
    ending.set(at, [...(ending.get(at) ?? []), line]);
  }
  const places = new Set(vertex.inputs.filter(edge => edge.gradient).map(edge => edge.place));
  const waiting = scene.lines.filter(line => line.target === vertex.index && places.has(line.place));
  while (waiting.length) {
    const line = waiting.pop();
    if (hot.has(line)) continue;
    const before = (ending.get(key(line.x1, line.y1)) ?? []).filter(other => other.target < 0);
    hot.set(line, before.length === 0);
    waiting.push(...before);
  }
  return hot;
}

/** What a step sends back, next to the box that gets it: its number, or the norm of many. */
function drawSent(graph, scene, state) {
  const seen = new Map();
  return sentBy(state.walk, opAt(state.walk)).map(edge => {
    const id = visibleBox(graph, state, edge.source);
    const box = scene.boxes.find(other => other.id === id);
    const line = seen.get(id) ?? 0;
    seen.set(id, line + 1);
    const { numbers, statistics, size } = edge.gradient;
    const norm = Number((statistics?.norm ?? 0).toPrecision(3));
    const text = size === 1 && numbers ? formatNumber(numbers[0]) : `norm ${formatNumber(norm)}`;
    return box && s("text", { x: box.x + box.width / 2 + 9, y: box.y + box.height + 16 + 15 * line }, text);
  });
}

// ---------------------------------------------------------------- frames

function drawFrame(graph, state, box) {
  const group = graph.groups[box.index];
  const one = group.isStack && memberOf(state, group.index) !== ALL;
  const { x, y, width, height } = box;
  const shadow = shift => s("rect", { class: "shadow", x: x + shift, y: y + shift, width, height, rx: 9 });
  return [one && [shadow(8), shadow(4)], s("rect", { class: "frame", x, y, width, height, rx: 9 })];
}

/** An open group's name: a button that folds it. */
function drawFrameName(graph, box, { classes }, state, actions) {
  const group = graph.groups[box.index];
  const note = memberNote(graph, state, group);
  const wide = tabWidth(graph, group) + note.width;
  return s(
    "g",
    {
      class: ["name", ...classes].join(" "),
      id: box.id,
      role: "button",
      tabindex: -1,
      transform: `translate(${box.x} ${box.y})`,
      "aria-expanded": "true",
      "aria-label": labelOf(graph, box),
      onclick: () => actions.press(box),
    },
    s("rect", { class: "target", width: box.width, height: HEADER + PADDING, rx: 9 }),
    s("rect", { class: "tab", x: box.tab, y: -TAB, width: wide, height: 2 * TAB, rx: 6 }),
    s(
      "text",
      { x: box.tab + 8, y: 5, "font-size": NAME },
      group.shownName,
      s("tspan", { class: "beside", dx: 8 }, group.shownKind + note.text),
    ),
    drawKnob(box.tab + wide + KNOB - 9, "M-4 0H4"),
  );
}

/** A minus or a plus on the upper border of what folds. */
function drawKnob(x, sign) {
  return s(
    "g",
    { class: "knob", transform: `translate(${x} 0)` },
    s("circle", { r: 8 }),
    s("path", { d: sign }),
  );
}

// ---------------------------------------------------------------- boxes

/** A closed box: an op, a leaf (round; dashed where it is data), or a folded part (a double line, a plus). */
function drawBox(graph, box, { lines, classes, colour }, state, actions) {
  const vertex = box.kind === "vertex" ? graph.vertices[box.index] : null;
  const paint = paintOf(graph, box.id, colour ?? state.colour);
  const { width, height } = box;
  const rx = vertex?.kind === "parameter" ? Math.min(height / 2, 22) : 5;
  const isBroken = paint.mark === BROKEN;
  const outline = { "stroke-width": vertex?.isOutput ? 2.2 : 1.3 };
  if (vertex?.kind === "constant") outline["stroke-dasharray"] = "5 3";
  const [value, gradient] = shownVertex(graph, box.id).heat;
  const middle = (width + (value ? MAP : 0) - (gradient ? MAP : 0)) / 2;
  const drawn = s(
    "g",
    {
      class: ["box", ...classes].join(" "),
      id: box.id,
      role: "button",
      tabindex: -1,
      transform: `translate(${box.x} ${box.y})`,
      "aria-label": labelOf(graph, box, lines),
      "aria-expanded": vertex ? null : "false",
      onclick: () => actions.press(box),
    },
    !vertex && graph.groups[box.index].isStack && drawShadows(box),
    s("rect", { class: "halo", x: -5, y: -5, width: width + 10, height: height + 10, rx: rx + 4 }),
    s("rect", { class: "body", width, height, rx, ...outline }),
    isBroken && s("rect", { width, height, rx, fill: "url(#hatch)" }),
    !vertex && drawFolded(box),
    value && drawHeat("value", value, 10, height),
    gradient && drawHeat("gradient", gradient, width - MAP, height),
    lines.map((line, i) => drawText(middle, line, i, isBroken)),
    paint.mark && drawMark(width - 5 - (gradient ? MAP : 0), paint),
  );
  return painted(drawn, paint);
}

/**
 * An element with a paint's colours. In dark mode, a fill is the outline's colour in a share that grows with the
 * distance of the light fill from white, so that fills differ in both.
 */
function painted(element, { fill, stroke }) {
  const darkest = Math.min(...[1, 3, 5].map(i => parseInt(fill.slice(i, i + 2), 16)));
  element.style.setProperty("--light", fill);
  element.style.setProperty("--hue", stroke);
  element.style.setProperty("--share", `${Math.min(85, Math.round(9 * Math.sqrt(255 - darkest)))}%`);
  return element;
}

/** The other members of a folded stack. */
function drawShadows({ width, height }) {
  return [8, 4].map(shift => s("rect", { class: "shadow", x: shift, y: shift, width, height, rx: 5 }));
}

/** The second line of a folded part, and its plus. */
function drawFolded({ width, height }) {
  const inner = { x: 3, y: 3, width: width - 6, height: height - 6, rx: 3 };
  return [
    s("rect", { class: "inner", ...inner, "stroke-width": 0.7 }),
    drawKnob(width - 18, "M-4 0H4M0 -4V4"),
  ];
}

/** A heat map, of a value or its gradient: the cells of each colour are one path. */
function drawHeat(kind, heat, x, height) {
  const [wide, high] = [MAP - 10, height - 14];
  const [w, h] = [wide / heat[0].length, high / heat.length];
  const paths = new Map();
  heat.forEach((row, i) =>
    [...row].forEach((digit, j) => {
      const [left, top, across, down] = [j * w, i * h, w, h].map(x => x.toFixed(2));
      const cell = `M${left} ${top}h${across}v${down}h-${across}z`;
      paths.set(digit, (paths.get(digit) ?? "") + cell);
    }),
  );
  return s(
    "g",
    { class: `heat ${kind}`, transform: `translate(${x} 7)` },
    s("rect", { class: "zero", width: wide, height: high }),
    [...paths].map(([digit, d]) => digit !== "4" && s("path", { class: heatClass(digit), d })),
    s("rect", { class: "edge", width: wide, height: high }),
  );
}

/** One of a box's lines; the first is its title. */
function drawText(x, line, i, isBroken) {
  const kind = i === 0 ? "title" : "line-of-text";
  const look = { class: isBroken ? `${kind} over-hatch` : kind, "font-size": i === 0 ? TITLE : TEXT };
  return s("text", { x, y: 19 + LINE * i, "text-anchor": "middle", ...look }, line);
}

function drawMark(x, { mark }) {
  return s("text", { class: "corner", x, y: 11, "text-anchor": "end", "font-size": 9 }, mark);
}

/** The label of a box for screen readers. */
function labelOf(graph, box, lines = null) {
  if (box.kind !== "vertex") {
    const group = graph.groups[box.index];
    return [group.shownName, group.shownKind, ...(lines ?? []).slice(2)].filter(Boolean).join(", ");
  }
  const vertex = graph.vertices[box.index];
  const kind = vertex.kind === "op" ? null : vertex.kind;
  return [
    ...(lines ?? [nameOf(vertex)]),
    kind,
    vertex.isOutput && "output",
    !vertex.value.finite && "not finite",
  ]
    .filter(Boolean)
    .join(", ");
}

// ---------------------------------------------------------------- the legend

/** The visible fills with their marks and meanings. */
export function drawLegend(graph, scene, mode) {
  const used = new Set(scene.boxes.map(box => paintOf(graph, box.id, mode).meaning));
  const order = [...new Set(graph.scale)].filter(i => used.has(graph.paints[i].meaning));
  const swatch = paint =>
    s(
      "svg",
      { class: "swatch", width: 24, height: 18, "aria-hidden": "true" },
      s("rect", {
        class: "body",
        x: 1,
        y: 1,
        width: 22,
        height: 16,
        rx: paint.meaning.includes("round") ? 8 : 3,
        "stroke-dasharray": paint.meaning.includes("dashed") ? "4 3" : null,
      }),
      paint.mark === BROKEN && s("rect", { x: 1, y: 1, width: 22, height: 16, fill: "url(#hatch)" }),
    );
  return h(
    "ul",
    { id: "legend", "aria-label": `Colours: ${graph.colours[mode]}` },
    order.map(i => {
      const paint = graph.paints[i];
      return h(
        "li",
        painted(swatch(paint), paint),
        paint.mark && h("span", { class: "mark" }, paint.mark),
        paint.meaning,
      );
    }),
  );
}
