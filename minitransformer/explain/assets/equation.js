// Equations: arrays as heat maps in one row, with the signs between them. Cells that belong together light up together.
//
// An operand has the `name` of an array and what `matrixView` takes (head, weight, rowRange, ...), or else labels of
// `rows` and `columns` and a `value(t, j)`. Its `axes` name what its rows and columns stand for: two operands with the
// same axis light up at the same place of it. `token:source` and `key:source` are tokens of the input; other axes are
// dimensions. Of a `transposed` operand the axes are those of the array as it is drawn.

import { announce, flat, h } from "../../../minigrad/graph/assets/dom.js";
import { headClass, headColour, pageColours } from "./colours.js";
import { describe, range } from "./derive.js";
import { symbol, roleClass, shownToken, titleOfRows } from "./elements.js";
import { pictured } from "./image.js";
import { matrixView, samePlace } from "./matrix.js";
import { canMove, moveEquation } from "./motion.js";
import { elementOf, inTable, largestOf, withMinus } from "./numbers.js";

const NARROW = 62; // the least width of a caption
export const ONE_ROW = 1280; // from this width on an equation has one row
const LEAST = { token: 16, words: 150, dimension: 120, weight: 70 }; // in several rows: widths of one token, of many, and of other arrays
const CAPTION = 24; // heights of a caption and of upright words above the columns
const UPRIGHT = 44;
const CORNER = 28; // of the title of the rows
let pointed = null; // { values, name }: what the mouse or the keyboard is at, by axis

/** The operands and signs in one row; below 1280 pixels in as many as they need, all together in `height`. */
export function equation(e, terms, height = heightForEquations(e), room = widthForEquations()) {
  const present = flat(terms).map(term => (term.axes ? drawnOperand(e, term) : term));
  const arrays = present.filter(term => term.axes);
  for (const array of arrays) array.widest ??= Math.max(256, Math.min(480, room / arrays.length - 40));
  const lines = window.innerWidth < ONE_ROW ? brokenLines(present, room) : [present];
  const above = line =>
    CAPTION + (line.some(({ axes, isBare }) => axes && !isBare && isTokens(axes[1])) ? UPRIGHT : 0);
  const free =
    window.innerWidth >= ONE_ROW
      ? height
      : (height - lines.reduce((sum, line) => sum + above(line), 0)) / lines.length;
  for (const line of lines) {
    const operands = labelRows(line);
    const hasGradients = operands.some(operand => hasGradient(e, operand)); // below the arrays
    const left = free - (operands.some(({ hasLabels, corner }) => hasLabels && corner) ? CORNER : 0);
    fitOperands(
      operands,
      widthOfSigns(line),
      hasGradients ? Math.max(16, left / 2 - 10) : Math.max(32, left),
      room,
    );
  }
  return h(
    "div",
    { class: "equation", role: "group", "aria-label": "Equation" },
    lines.map(line =>
      h(
        "div",
        { class: "in-row" },
        line.map(term => (term.axes ? heatFigure(e, term) : signFigure(term))),
      ),
    ),
  );
}

/** The operands of a row; its words stand beside the first one that has them. */
function labelRows(line) {
  const operands = line.filter(term => term.axes);
  const labelled = new Set();
  for (const operand of operands) {
    operand.hasLabels = isTokens(operand.axes[0]) && !labelled.has(operand.axes[0]);
    labelled.add(operand.axes[0]);
  }
  return operands;
}

function widthOfSigns(line) {
  return line.filter(term => !term.axes).reduce((sum, sign) => sum + signWidth(sign), 0);
}

/** The terms in rows that are no wider than `room`; a sign stands before its operand. */
function brokenLines(terms, room) {
  const lines = [[]];
  let signs = [];
  for (const term of terms) {
    if (!term.axes) {
      signs.push(term);
      continue;
    }
    const longer = [...lines.at(-1), ...signs, term];
    const least = labelRows(longer).reduce(
      (sum, each) => sum + 4 + Math.max(captionWidth(each), widthOfLabels(each) + leastWidth(each)),
      widthOfSigns(longer),
    );
    if (least <= room || !lines.at(-1).length) lines[lines.length - 1] = longer;
    else lines.push([...signs, term]);
    signs = [];
  }
  return lines;
}

function leastWidth(operand) {
  const {
    shape: [, columns],
    axes,
    weight,
  } = operand;
  return Math.min(
    fullWidth(operand),
    isTokens(axes[1])
      ? Math.min(LEAST.token * columns, LEAST.words)
      : Math.min(9 * columns, weight ? LEAST.weight : LEAST.dimension),
  );
}

/** The width at which an operand is drawn where there is room. */
function fullWidth({ shape: [, columns], axes, weight, widest }) {
  if (columns === 1) return 16;
  return isTokens(axes[1])
    ? Math.min(34 * columns, 300)
    : Math.min(cellSize(columns, 9, 30) * columns, weight ? 150 : widest);
}

/** Few cells are large. */
function cellSize(count, least, most) {
  return Math.max(least, Math.min(most, 120 / count));
}

function widthOfLabels({ shape: [rows], labels: [label], hasLabels, corner }) {
  return hasLabels
    ? Math.max(corner ? 56 : 0, Math.min(112, 8.5 * Math.max(...range(rows, t => label(t).length)) + 8))
    : 0;
}

function captionWidth({ shape: [, columns] }) {
  return columns === 1 ? 42 : NARROW;
}

function signFigure(sign) {
  const element = h("p", { class: "sign" }, sign);
  element.style.width = `${signWidth(sign)}px`;
  return element;
}

/** A word takes more room than a sign. */
function signWidth(sign) {
  const { length } = sign.textContent ?? sign;
  const isNarrow = window.innerWidth < 600;
  return length > 2 ? (isNarrow ? 10 : 14) + 12 * length : isNarrow ? 20 : 28;
}

function hasGradient(e, { name, weight, isBack }) {
  return Boolean(name && (e.backward || isBack) && (weight || name in e.gradients().activations));
}

/** The readout below an equation, and what shows its numbers as tables. */
export function readout(e) {
  return [
    h(
      "p",
      { class: "readout" },
      `Point at a cell: what it belongs to lights up. Select it, and see how it comes about.${e.backward ? " In gold frames: gradients, each with its own scale of colours." : ""}`,
    ),
    numbersButton(e, canMove(e) ? playButton(e) : null),
  ];
}

function playButton(e) {
  return h("button", { type: "button", "data-key": "move", onclick: () => moveEquation(e) }, "▶ Play");
}

export function numbersButton(e, before = null) {
  return h(
    "p",
    before,
    before ? " " : null,
    h(
      "button",
      {
        type: "button",
        "aria-expanded": e.numbers ? "true" : "false",
        "data-key": "numbers",
        onclick: () => e.set({ numbers: !e.numbers }),
      },
      e.numbers ? "Hide numbers" : "Show numbers",
    ),
  );
}

/** The height for the equations of a stage; `more` is what else stands above them on a narrow screen. */
export function heightForEquations(e, more = 0) {
  if (window.innerWidth < ONE_ROW)
    return Math.max(220, window.innerHeight - 440 - more - (e.isImage ? 60 : 0));
  return Math.max(130, Math.min(330, window.innerHeight - 480));
}

/** The width that an equation has: at the side, the panel has its own. */
export function widthForEquations() {
  return widthOfStage() - (document.documentElement.clientWidth >= 1265 ? PANEL : 0);
}

/** The width of a stage, beside the map. */
export function widthOfStage() {
  const width = document.documentElement.clientWidth;
  return width - (width < 600 ? 24 : width < 1000 ? 32 : 330);
}

const PANEL = 384; // as in page.css

function isTokens(axis) {
  return axis.includes(":");
}

/** Words for the rows and columns, and the numbers, as they are drawn. */
function drawnOperand(e, operand) {
  const view = operand.name
    ? matrixView(e, operand.name, { ...operand, gradient: false })
    : { ...operand, rows: operand.rows.length, columns: operand.columns.length };
  const { pick, pickRows } = operand; // some of the columns, or of the rows
  const index = operand.name ? (t, j) => view.at(pickRows ? pickRows[t] : t, pick ? pick[j] : j) : () => null;
  const value = operand.value ?? ((t, j) => elementOf(view.array, index(t, j)));
  const turned = operand.transposed;
  const [rows, columns] = [pickRows ? pickRows.length : view.rows, pick ? pick.length : view.columns];
  const labels = [
    operand.name
      ? t => (pickRows ? shownToken(e.wordOf(pickRows[t])) : view.rowLabel(t))
      : t => operand.rows[t],
    operand.name ? j => view.columnLabel(pick ? pick[j] : j) : j => operand.columns[j],
  ];
  return {
    ...operand,
    corner: titleOfRows(e, operand.axes[0]),
    title: operand.title ?? describe(e, operand.name),
    shape: turned ? [columns, rows] : [rows, columns],
    index: turned ? (t, j) => index(j, t) : index,
    valueAt: turned ? (t, j) => value(j, t) : value,
    labels: turned ? labels.toReversed() : labels,
    isProbability: view.isProbability,
    largest: pick || pickRows ? null : view.largest,
    first: isTokens(operand.axes[0]) ? (operand.rowRange?.[0] ?? 0) : 0, // the token of the first row
  };
}

/** Sizes in pixels. An axis has the same size in each operand, so that rows meet rows, and columns columns. */
function fitOperands(operands, signs, height, room) {
  const share = shareOfWidth(operands, room - signs);
  for (const operand of operands) {
    const [rows, columns] = operand.shape;
    operand.labelWidth = widthOfLabels(operand);
    const full = fullWidth(operand);
    const least = Math.min(full, captionWidth(operand) - operand.labelWidth); // what the caption takes anyway
    operand.width = columns === 1 ? 16 : Math.floor(Math.max(10, least, full * share));
    operand.height = Math.max(
      10,
      Math.floor(Math.min(height, rows * (isTokens(operand.axes[0]) ? 26 : cellSize(rows, 8, 26)))),
    );
  }
}

/** By how much all operands shrink, so that they fit beside one another. */
function shareOfWidth(operands, room) {
  const total = share =>
    operands.reduce(
      (sum, each) => sum + 4 + Math.max(captionWidth(each), widthOfLabels(each) + share * fullWidth(each)),
      0,
    );
  let [low, high] = [0.04, 1];
  if (total(high) <= room) return high;
  for (let i = 0; i < 12; i++)
    [low, high] = total((low + high) / 2) <= room ? [(low + high) / 2, high] : [low, (low + high) / 2];
  return low;
}

function heatFigure(e, operand) {
  const {
    shape: [rows, columns],
    letter,
    title,
    transposed,
    labelWidth,
    width,
  } = operand;
  const size = `${rows} × ${columns}`;
  const caption = h(
    "figcaption",
    letter ? [symbol(letter), transposed ? h("sup", "⊤") : null, " "] : null,
    h("span", title),
    labelWidth + width < 130 && title ? null : h("span", { class: "size" }, ` ${size}`),
  );
  const figure = h(
    "figure",
    { class: `heat-map ${roleOf(operand) ?? ""}`.trim() },
    caption,
    columnLabels(e, operand),
    h("div", { class: "line-of-cells" }, rowLabels(e, operand), cells(e, operand, false)),
    hasGradient(e, operand)
      ? h(
          "div",
          { class: "line-of-cells gradient" },
          labelWidth ? rowLabels(e, operand) : null,
          cells(e, { ...operand, largest: null, valueAt: gradientOf(e, operand) }, true),
        )
      : null,
  );
  caption.style.maxWidth = `${Math.max(labelWidth + width, captionWidth(operand))}px`;
  return figure;
}

/** The class of an array's colour: of queries, keys and values, or of its head. */
export function roleOf({ name, weight, head }) {
  const role = weight ? null : roleClass(name);
  return role ?? (head === undefined ? null : headClass(head));
}

function gradientOf(e, { name, weight, index }) {
  const array = (weight ? e.gradients().weights : e.gradients().activations)[name];
  return (t, j) => elementOf(array, index(t, j));
}

function tokenOfAxis(axis, i) {
  return isTokens(axis) ? `${axis.split(":")[1]}:${i}` : null;
}

function rowLabels(
  e,
  { first, shape: [rows], axes: [axis], labels: [label], height, labelWidth, hasLabels },
) {
  if (!hasLabels) return null;
  const every = Math.ceil((15 * rows) / height); // of many words, as many as fit
  const list = h(
    "div",
    { class: "row-labels", "aria-hidden": "true" },
    range(rows, t =>
      h("span", { "data-token": tokenOfAxis(axis, first + t) }, t % every ? "" : pictured(e, label(t), true)),
    ),
  );
  list.style.width = `${labelWidth}px`;
  list.style.height = `${height}px`;
  return list;
}

function columnLabels(
  e,
  { shape: [, columns], axes: [, axis], labels: [, label], width, labelWidth, hasLabels, corner, isBare },
) {
  const step = width / columns;
  const title = hasLabels && corner ? h("i", corner) : null; // of the rows, in the corner
  if (isBare || !isTokens(axis) || step < 14) {
    const empty = h("div", { class: title ? "column-labels" : null, "aria-hidden": "true" }, title);
    empty.style.marginLeft = `${labelWidth}px`;
    return empty;
  }
  const upright = step < 9 * Math.max(...range(columns, u => label(u).length));
  const list = h(
    "div",
    { class: upright ? "column-labels upright" : "column-labels", "aria-hidden": "true" },
    title,
    range(columns, u => h("span", { "data-token": tokenOfAxis(axis, u) }, pictured(e, label(u), true))),
  );
  list.style.width = `${width}px`;
  list.style.marginLeft = `${labelWidth}px`;
  return list;
}

/** The cells, of which the mouse, touch or the keys choose one. */
function cells(e, operand, gradient) {
  const {
    shape: [rows, columns],
    name,
    head,
    weight,
    title,
    width,
    height,
    transposed,
    labels,
  } = operand;
  const key = `heat:${name ?? title}:${head ?? ""}:${gradient ? "g" : "v"}:${transposed ? "t" : ""}`;
  const at = event => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = (x, size, n) => Math.max(0, Math.min(n - 1, Math.floor((x / size) * n)));
    return [
      place(event.clientY - box.top, box.height, rows),
      place(event.clientX - box.left, box.width, columns),
    ];
  };
  const point = (t, j) => {
    pointed = {
      values: { [operand.axes[0]]: operand.first + t, [operand.axes[1]]: j },
      name,
      place: [t, j],
      key,
    };
    showLinks(
      e,
      `${gradient ? "Gradient of " : ""}${title || operand.letter || "the matrix"}, ${labels[0](t)} · ${labels[1](j)}: `,
      isAsked(e, operand, gradient, t, j) ? "?" : threeDigits(operand.valueAt(t, j)),
    );
  };
  const select = (t, j) => {
    const place = { name, index: operand.index(t, j), gradient, weight: Boolean(weight) };
    if (name) e.set({ cell: samePlace(e.cell, place) ? null : place });
  };
  const canvas = h("canvas", {
    class: "cells",
    width: columns,
    height: rows,
    role: "img",
    tabindex: 0,
    "data-key": key,
    "aria-label": `${gradient ? "Gradient of " : ""}${title}, ${rows} × ${columns}, as colours: arrow keys choose a cell, Enter selects it`,
    onpointermove: event => point(...at(event)),
    onpointerleave: () => unpoint(e),
    onblur: () => unpoint(e),
    onclick: event => select(...at(event)),
    onkeydown: event => {
      const [t, j] = pointed?.key === key ? pointed.place : [0, 0];
      const moves = {
        ArrowLeft: [t, j - 1],
        ArrowRight: [t, j + 1],
        ArrowUp: [t - 1, j],
        ArrowDown: [t + 1, j],
      };
      if (event.key === "Enter") select(t, j);
      else if (moves[event.key]) {
        const [row, column] = moves[event.key];
        point(Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column)));
        announce(document.querySelector(".readout")?.textContent ?? "");
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
  });
  canvas.operand = { ...operand, gradient };
  paintCells(canvas, operand);
  const box = h(
    "div",
    { class: gradient ? "cells-box gradient" : "cells-box" },
    canvas,
    h("div", { class: "mark" }),
  );
  box.style.width = `${width}px`;
  box.style.height = `${height}px`;
  return box;
}

function isAsked(e, { name, index, weight }, gradient, t, j) {
  return Boolean(name) && samePlace(e.quiz?.place, { name, index: index(t, j), gradient, weight });
}

/** Three significant digits; all of them are in the panel. */
export function threeDigits(x) {
  if (!Number.isFinite(x) || x === 0) return inTable(x, 0);
  const size = Math.abs(x);
  return withMinus(size < 1e-3 || size >= 1e5 ? x.toExponential(2) : x.toPrecision(3));
}

/** One pixel a cell, which the style enlarges. */
export function paintCells(canvas, { shape: [rows, columns], valueAt, isProbability, largest, head, bright = () => 1 }) {
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const colours = pageColours();
  const { paper, negative, line } = colours;
  const positive = isProbability && head !== undefined ? headColour(colours, head) : colours.positive;
  const most = isProbability
    ? 1
    : (largest ?? largestOf(range(rows * columns, i => valueAt(Math.floor(i / columns), i % columns))));
  for (let t = 0; t < rows; t++)
    for (let j = 0; j < columns; j++) {
      const x = valueAt(t, j);
      const share = Number.isFinite(x) ? Math.min(1, Math.abs(x) / (most || 1)) : 1;
      const to = x === -Infinity ? line : x < 0 ? negative : positive;
      const at = 4 * (t * columns + j);
      for (let c = 0; c < 3; c++) image.data[at + c] = paper[c] + (to[c] - paper[c]) * share;
      image.data[at + 3] = 255 * bright(t, j);
    }
  pen.putImageData(image, 0, 0);
}

// ---------------------------------------------------------------- what lights up

/** The mouse has left, or the focus; of a motion that ends, what the reader points at stays. */
export function unpoint(e, isMotion = false) {
  if (isMotion && isPointedByReader()) return;
  pointed = null;
  showLinks(e);
}

/** What an equation that moves is at. */
export function pointAlong(e, values, label, number) {
  pointed = { values, name: null, isMotion: true };
  showLinks(e, label, number === undefined ? "" : threeDigits(number));
}

export function isPointedByReader() {
  return Boolean(pointed && !pointed.isMotion);
}

/** A token, wherever it occurs. */
function pointAtToken(e, token) {
  const [side, i] = token.split(":");
  pointed = {
    values: { [`token:${side}`]: Number(i), [`key:${side}`]: Number(i) },
    name: null,
    isWord: true,
  };
  showLinks(e);
}

/** Where the selected number is, on the axes of this stage. */
function selectedLight(e) {
  if (!e.cell)
    return {
      values: e.screen === "alignment" && e.query !== undefined ? { "token:target": e.query } : {},
      name: null,
    };
  const { name, index, weight } = e.cell;
  for (const { operand } of document.querySelectorAll("canvas.cells")) {
    if (operand.name !== name || Boolean(operand.weight) !== Boolean(weight)) continue;
    if (index.length === 3 && operand.head !== index[0]) continue;
    const row = operand.pickRows
      ? operand.pickRows.indexOf(index.at(-2))
      : index.length === 1
        ? 0
        : index.at(-2) - (operand.rowRange?.[0] ?? 0);
    if (row >= (operand.rowRange?.[1] ?? Infinity)) continue;
    const column = operand.pick ? operand.pick.indexOf(index.at(-1)) : index.at(-1);
    const [first, second] = operand.transposed ? [column, row] : [row, column];
    if (row >= 0 && column >= 0)
      return { values: { [operand.axes[0]]: operand.first + first, [operand.axes[1]]: second }, name };
  }
  const values = weight || index.length < 2 ? {} : { [`token:${e.sideOfRows(name)}`]: index.at(-2) };
  if (!weight && e.isOverTokens(name))
    values[`key:${name.includes("cross") ? "source" : e.sideOfRows(name)}`] = index.at(-1);
  return { values, name };
}

/** Marks rows, columns, cells, tokens, arcs and the block of the map that belong to what is pointed at or selected. */
export function showLinks(e, label = "", number = "") {
  const { values: found, name } = pointed ?? selectedLight(e);
  const values = withKeys(found);
  for (const canvas of document.querySelectorAll("canvas.cells")) {
    const { axes, shape, lights, first } = canvas.operand;
    const [t, j] = [
      axes[0] in values ? values[axes[0]] - first : undefined,
      lights === "row" ? undefined : values[axes[1]],
    ];
    const { style } = canvas.nextSibling;
    const isShown = (t ?? 0) >= 0 && (t ?? 0) < shape[0] && (j ?? 0) < shape[1];
    style.display = (t === undefined && j === undefined) || !isShown ? "none" : "block";
    style.top = `${t === undefined ? 0 : (100 * t) / shape[0]}%`;
    style.height = `${t === undefined ? 100 : 100 / shape[0]}%`;
    style.left = `${j === undefined ? 0 : (100 * j) / shape[1]}%`;
    style.width = `${j === undefined ? 100 : 100 / shape[1]}%`;
  }
  const tokens = new Set(Object.entries(values).map(([axis, i]) => tokenOfAxis(axis, i)));
  for (const each of document.querySelectorAll("[data-token]"))
    each.classList.toggle("lit", tokens.has(each.dataset.token));
  const isolated = [...document.querySelectorAll(".arc")].filter(arc => isLitArc(arc, values));
  for (const arc of document.querySelectorAll(".arc"))
    arc.classList.toggle("dim", isolated.length > 0 && !isolated.includes(arc));
  const block = name ? blockOf(e, name) : null;
  for (const box of document.querySelectorAll("#map .box"))
    box.classList.toggle("lit", block !== null && box.getAttribute("href") === `#${block}`);
  const readout = document.querySelector(".readout");
  if (readout && label) readout.replaceChildren(label, h("b", number));
}

/** The rows of V stand for the keys: what lights up a key lights up its value. */
function withKeys(values) {
  const all = { ...values };
  for (const [axis, i] of Object.entries(values)) {
    if (axis.startsWith("key:")) all[axis.replace("key", "value")] ??= i;
    if (axis.startsWith("value:")) all[axis.replace("value", "key")] ??= i;
  }
  return all;
}

/** An arc from the query that is lit, or to the key: of a word, all that it attends to; of a cell, one. */
function isLitArc(arc, values) {
  const [side, query] = arc.dataset.query.split(":");
  const [keySide, key] = arc.dataset.attended.split(":");
  const [t, u] = [values[`token:${side}`], values[`key:${keySide}`]];
  if (t === undefined) return u === Number(key);
  return t === Number(query) && (u === undefined || pointed?.isWord || u === Number(key));
}

/** The address of the block of the map that computes an array, or that uses a weight first; null if none does. */
function blockOf(e, name) {
  const nodes = [...e.plan.values()];
  const node = e.plan.get(name) ?? nodes.find(({ weight, bias }) => [weight, bias].includes(name));
  if (!node) return null;
  const inLayer = node.name.match(
    /^(\w+\.layers\.\d+\.(self_attention|cross_attention|feed_forward|residual\d))\./,
  );
  if (inLayer)
    return `${inLayer[2].endsWith("attention") ? "attention" : inLayer[2] === "feed_forward" ? "feed-forward" : "add-norm"}:${inLayer[1]}`;
  const recurrent = node.name.match(/^(layers\.\d+)\.(\w+)$/);
  if (recurrent) return `${recurrent[2] === "cell" ? "memory" : "gates"}:${recurrent[1]}`;
  const [stack, part] = node.name.split(".");
  if (["logits", "probabilities", "head"].includes(stack)) return stack;
  if (part === "norm") return `final-norm:${stack}`;
  if (part === "embedding_norm") return `input-norm:${stack}`;
  if (node.kind === "same") return blockOf(e, node.from[0]);
  if (stack === "decoder") return "shifted";
  if (part === "segments") return part;
  return ["positions", "input", "embedding_sum"].includes(part)
    ? "positions"
    : e.isImage
      ? "patches"
      : "embeddings";
}

export function listenToPointer(e) {
  const tokenAt = event => event.target.closest?.("[data-token]")?.dataset.token;
  for (const type of ["pointerover", "focusin"])
    document.addEventListener(type, event => tokenAt(event) && pointAtToken(e, tokenAt(event)));
  for (const type of ["pointerout", "focusout"])
    document.addEventListener(type, event => tokenAt(event) && unpoint(e));
}
