// An array as a table of numbers: rows are tokens, columns are dimensions or tokens; colours say how large.

import { h, walkCells } from "../../../minigrad/graph/assets/dom.js";
import { css, mixed, pageColours } from "./colours.js";
import { describe, range } from "./derive.js";
import { comparison, printedNumber } from "./documents.js";
import { scrolling, symbol, titleOfRows } from "./elements.js";
import { roleOf } from "./equation.js";
import { pictured } from "./image.js";
import { decimalsFor, elementOf, inTable } from "./numbers.js";

export const MOST_TOKENS = 32; // rows, or columns that are tokens, of a table

/** How many columns fit: a wide array is shown as a strip of colours, and a window of numbers. */
function columnsThatFit() {
  return window.innerWidth < 600 ? 4 : 8;
}

/**
 * A figure of one array, or of one head of it; with its gradient beside it when that is switched on.
 * `options`: title, letter, head, rows and columns (labels), weight (of the state_dict).
 */
export function matrix(e, name, options = {}) {
  const figures = [matrixFigure(e, name, { ...options, gradient: false })];
  const differentiable = options.weight || name in (e.backward ? e.gradients().activations : {});
  if (e.backward && differentiable) figures.push(matrixFigure(e, name, { ...options, gradient: true }));
  return h("div", { class: "matrices" }, figures);
}

function matrixFigure(e, name, options) {
  const view = matrixView(e, name, options);
  const { rows, columns } = view;
  const size = `${rows} × ${columns}`;
  const title = options.gradient
    ? `Gradient of ${options.title ?? describe(e, name)}`
    : (options.title ?? describe(e, name));
  const caption = h(
    "figcaption",
    options.letter ? [options.gradient ? "∂loss / ∂" : "", symbol(options.letter), " "] : null,
    h("span", title),
    h("span", { class: "size" }, ` ${size}`),
  );
  const width = columnsThatFit();
  const isWide = columns > (view.overTokens ? MOST_TOKENS : width + 2);
  const first = isWide ? windowStart(e, columns, columns - width) : 0;
  const shown = isWide ? width : columns;
  const isHigh = rows > MOST_TOKENS;
  const top = isHigh ? windowStart(e, `rows ${rows}`, rows - MOST_TOKENS) : 0;
  return h(
    "figure",
    { class: `matrix${options.gradient ? " gradient" : ""} ${roleOf({ ...options, name }) ?? ""}`.trim() },
    caption,
    isWide
      ? [
          columnStrip(view, first, shown, title),
          windowSlider(e, name, first, width, columns, title, options.gradient),
        ]
      : null,
    isHigh ? rowSlider(e, top, rows, title, options.gradient) : null,
    h("div", { class: "scroll" }, table(e, view, first, shown, title, top, Math.min(rows, MOST_TOKENS))),
    options.gradient ? null : comparison(e, name),
  );
}

/** The numbers of a figure: where they are, and what their rows and columns are called. */
export function matrixView(e, name, options) {
  const source = options.weight
    ? options.gradient
      ? e.gradients().weights
      : e.weights
    : options.gradient
      ? e.gradients().activations
      : e.record.arrays;
  const array = source[name];
  const head = options.head;
  const shape = array.shape.slice(-2);
  if (shape.length === 1) shape.unshift(1);
  const [firstRow, rows] = options.rowRange ?? [0, shape[0]];
  const place = (t, j) =>
    head === undefined ? (array.shape.length === 1 ? [j] : [firstRow + t, j]) : [head, firstRow + t, j];
  const columns = shape[1];
  let largest = 0;
  for (let t = 0; t < rows; t++)
    for (let j = 0; j < columns; j++) {
      const x = Math.abs(elementOf(array, place(t, j)));
      if (Number.isFinite(x) && x > largest) largest = x;
    }
  const overTokens = !options.weight && e.isOverTokens(name);
  return {
    tokenOfRow: t =>
      options.weight || array.shape.length < 2 || rows === 1 ? null : `${e.sideOfRows(name)}:${firstRow + t}`,
    e,
    name,
    array,
    at: place,
    rows,
    columns,
    largest,
    overTokens,
    gradient: options.gradient,
    weight: options.weight,
    options,
    isProbability: !options.gradient && /(weights|probabilities)$/.test(name) && !options.weight,
    decimals: overTokens && !options.gradient && /weights$/.test(name) ? 3 : decimalsFor(largest),
    rowLabel: options.rows
      ? t => options.rows[t]
      : options.weight
        ? t => `${t}`
        : t => e.rowLabel(name, firstRow + t),
    columnLabel: options.columns
      ? j => options.columns[j]
      : options.weight
        ? j => `${j}`
        : j => e.columnLabel(name, j),
  };
}

/**
 * Numbers that are no cells of the record: `rows` and `columns` are labels, `value(t, u)` a number. Of many, a
 * window is shown, which sliders move; `most` is its height. `heads(t)` has further cells at the side of a row.
 */
export function plainTable(
  e,
  { title, corner = "", rows, columns, value, text, look, heads = () => [], most = MOST_TOKENS },
) {
  const [high, wide] = [rows.length > most, columns.length > MOST_TOKENS];
  const top = high ? windowStart(e, `rows ${rows.length}`, rows.length - most) : 0;
  const first = wide ? windowStart(e, columns.length, columns.length - MOST_TOKENS) : 0;
  const shown = columns.slice(first, first + MOST_TOKENS);
  const side = heads(0).length;
  return [
    wide ? windowSlider(e, title, first, MOST_TOKENS, columns.length, title) : null,
    high ? rowSlider(e, top, rows.length, title, false, most) : null,
    scrolling(
      title,
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          h(
            "tr",
            h("td", corner),
            range(side, () => h("td", { class: "quiet" })),
            shown.map(word => h("th", { scope: "col", class: "token" }, pictured(e, word, true))),
          ),
        ),
        h(
          "tbody",
          rows.slice(top, top + most).map((word, i) =>
            h(
              "tr",
              h("th", { scope: "row" }, pictured(e, word)),
              heads(top + i).map(content => h("td", { class: "quiet" }, content)),
              shown.map((_, j) => {
                const x = value(top + i, first + j);
                const td = h("td", { class: "shown" }, text(x));
                tint(td, x, look);
                return td;
              }),
            ),
          ),
        ),
      ),
    ),
  ];
}

/** The first row or column of a window that the reader may have moved. */
export function windowStart(e, key, last) {
  return Math.min(e.windows[key] ?? 0, last);
}

function table(e, view, first, count, title, top, height) {
  const [side] = view.tokenOfRow(top)?.split(":") ?? [];
  const corner = h("td", { class: "quiet" }, titleOfRows(e, `token:${side}`));
  const head = h(
    "tr",
    corner,
    range(count, j =>
      h(
        "th",
        { scope: "col", class: view.overTokens ? "token" : null },
        pictured(e, view.columnLabel(first + j), true),
      ),
    ),
  );
  const rows = range(height, i => top + i).map(t =>
    h(
      "tr",
      { class: view.options.current === t ? "current" : null },
      h("th", { scope: "row", "data-token": view.tokenOfRow(t) }, pictured(e, view.rowLabel(t))),
      range(count, j => cell(e, view, t, first + j, t === top && j === 0)),
    ),
  );
  return h(
    "table",
    { class: "numbers", onkeydown: walkCells },
    h("caption", { class: "unseen" }, title),
    h("thead", head),
    h("tbody", rows),
  );
}

function cell(e, view, t, j, isFirst) {
  const index = view.at(t, j);
  const x = elementOf(view.array, index);
  const place = { name: view.name, index, gradient: Boolean(view.gradient), weight: Boolean(view.weight) };
  const selected = samePlace(e.cell, place);
  const asked = samePlace(e.quiz?.place, place);
  const text = asked ? "?" : inTable(x, view.decimals);
  const button = h(
    "button",
    {
      type: "button",
      tabindex: isFirst || selected ? 0 : -1,
      "aria-pressed": selected ? "true" : "false",
      "data-key": placeKey(place),
      "aria-label": `${view.rowLabel(t)}, ${view.columnLabel(j)}: ${text}`,
      onclick: () => e.set({ cell: selected ? null : place }),
    },
    text,
  );
  const td = h(
    "td",
    { class: x === -Infinity ? "hidden-cell" : asked ? "asked" : null },
    button,
    asked ? null : printedNumber(e, place, x),
  );
  tint(td, x, view);
  return td;
}

export function placeKey({ name, index, gradient, weight }) {
  return `${weight ? "w" : "a"}${gradient ? "g" : "v"}:${name}:${index.join(",")}`;
}

export function samePlace(a, b) {
  return Boolean(a && b) && placeKey(a) === placeKey(b);
}

/** A cell's colour; the text on it stays legible. */
export function tint(element, x, view) {
  if (!Number.isFinite(x) || !(view.largest > 0)) return;
  const share = Math.min(1, Math.abs(x) / (view.isProbability ? 1 : view.largest));
  element.style.setProperty("--share", `${Math.round(100 * share)}%`);
  element.classList.add(view.isProbability ? "probability" : x < 0 ? "negative" : "positive");
}

/** All columns as colours, so that one sees what the window of numbers is a part of. */
export function columnStrip(view, first, count, title) {
  const height = view.rows > 24 ? 3 : view.rows > 8 ? 6 : 10;
  const unit = Math.max(1, Math.floor(512 / view.columns));
  const canvas = h("canvas", {
    class: "strip",
    width: view.columns * unit,
    height: view.rows * height,
    role: "img",
    "aria-label": `${title}: all ${view.columns} columns as colours, ${first} to ${first + count - 1} framed`,
  });
  const pen = canvas.getContext("2d");
  const colours = pageColours();
  for (let t = 0; t < view.rows; t++) {
    for (let j = 0; j < view.columns; j++) {
      const x = elementOf(view.array, view.at(t, j));
      pen.fillStyle = css(
        mixed(colours.paper, x < 0 ? colours.negative : colours.positive, Math.abs(x) / (view.largest || 1)),
      );
      pen.fillRect(j * unit, t * height, unit, height);
    }
  }
  const frame = h("div", { class: "strip-window" });
  frame.style.left = `${(100 * first) / view.columns}%`;
  frame.style.width = `${(100 * count) / view.columns}%`;
  return h("div", { class: "strip-box" }, canvas, frame);
}

function rowSlider(e, top, rows, title, gradient, most = MOST_TOKENS) {
  const label = `rows ${top} to ${top + most - 1} of ${rows}`;
  const key = `rows${gradient ? "g" : ""}:${title}`;
  return partSlider(e, {
    first: top,
    most: rows - most,
    name: `First row of ${title}`,
    label,
    key,
    window: `rows ${rows}`,
  });
}

function windowSlider(e, name, first, width, columns, title, gradient) {
  const label = `columns ${first} to ${first + width - 1}`;
  const key = `window${gradient ? "g" : ""}:${name}`;
  return partSlider(e, {
    first,
    most: columns - width,
    name: `First column of ${title}`,
    label,
    key,
    window: columns,
  });
}

/** Which rows or columns of a large array are shown. */
function partSlider(e, { first, most, name, label, key, window }) {
  return h(
    "label",
    { class: "window" },
    h("input", {
      type: "range",
      min: 0,
      max: most,
      value: first,
      "aria-label": name,
      "aria-valuetext": label,
      "data-key": key,
      oninput: event => e.set({ windows: { ...e.windows, [window]: Number(event.target.value) } }),
    }),
    h("span", label),
  );
}
