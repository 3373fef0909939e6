// Numbers and formulas as elements of the page.

import { announce, h, walkCells } from "./dom.js";
import { allDigits, formatNumber, largestOf, signClass } from "./numbers.js";
import { unravel } from "./walk.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";

/**
 * A formula: MathML that Python wrote, read as XML, of which only MathML's own elements are taken. Each term is
 * an element of its own, so that a long formula breaks into lines.
 */
export function formula(text) {
  const read = new DOMParser().parseFromString(text, "application/xml").documentElement;
  const strange = [read, ...read.querySelectorAll("*")].some(element => element.namespaceURI !== MATHML);
  if (strange) return h("code", read.textContent);
  const whole = document.importNode(read, true);
  const first = whole.firstElementChild;
  const row = whole.children.length === 1 && first.localName === "mrow" ? first : whole;
  const terms = [[]];
  for (const part of [...row.children]) {
    const isOperator = part.localName === "mo";
    const isText = part.localName === "mtext";
    if ((isText || (isOperator && BEFORE.test(part.textContent))) && terms.at(-1).length) terms.push([]);
    terms.at(-1).push(part);
    if (isText || (isOperator && AFTER.test(part.textContent))) terms.push([]);
  }
  return h("span", { class: "equation" }, terms.filter(parts => parts.length).map(asTerm));
}

/** A term of a formula; words are text, which breaks between them. */
function asTerm(parts) {
  if (parts[0].localName === "mtext") return parts[0].textContent;
  const math = document.createElementNS(MATHML, "math");
  const inner = document.createElementNS(MATHML, "mrow");
  inner.append(...parts);
  math.append(inner);
  return math;
}

const BEFORE = /^[+−⊙-]$/, // operators before and after which a line may break
  AFTER = /^[=,;]$/;

export function plural(n, one, several = `${one}s`) {
  return n === 1 ? one : several;
}

export const LARGE_TABLE = 256; // cells

/**
 * Numbers in a table, matrix by matrix, with three digits, and all of them where one is pressed. `options`:
 * `caption`; `onCell(flat index)` is what a press does instead; `chosen` is the cell that is pressed; `hidden`
 * shows "?" for numbers; `marked(flat)` highlights cells; `name` begins the ids of buttons.
 */
export function numberTable(numbers, shape, options = {}) {
  if (!shape.length || (numbers.length === 1 && !options.onCell)) {
    return h("p", { class: "number" }, options.hidden ? "?" : numberButton(numbers[0], Math.abs(numbers[0])));
  }
  options = { ...options, largest: largestOf(numbers) };
  const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape.slice(-2);
  const matrices = numbers.length / Math.max(1, rows * columns);
  const tables = [];
  for (let m = 0; m < matrices; m += 1) {
    const where = shape.length > 2 ? ` [${[...unravel(m, shape.slice(0, -2)), ":", ":"].join(", ")}]` : "";
    tables.push(matrixTable(numbers, m * rows * columns, rows, columns, shape.length === 1, where, options));
  }
  const all = h("div", { class: "tables", role: "group", "aria-label": options.caption }, tables);
  roveCells(all);
  return all;
}

function matrixTable(numbers, offset, rows, columns, isVector, where, options) {
  const table = h(
    "table",
    { class: "numbers" },
    h("caption", h("span", { class: "unseen" }, options.caption), where),
  );
  const header = h("tr", isVector ? null : h("td"));
  for (let j = 0; j < columns; j += 1) header.append(h("th", { scope: "col" }, String(j)));
  table.append(h("thead", header));
  const body = h("tbody");
  for (let i = 0; i < rows; i += 1) {
    const row = h("tr", isVector ? null : h("th", { scope: "row" }, String(i)));
    for (let j = 0; j < columns; j += 1) row.append(cell(numbers, offset + i * columns + j, options));
    body.append(row);
  }
  table.append(body);
  return table;
}

function cell(numbers, flat, options) {
  const marked = options.marked?.(flat) ? "marked" : null;
  if (options.hidden) return h("td", { class: marked }, "?");
  const x = numbers[flat];
  const button = options.onCell
    ? h(
        "button",
        {
          type: "button",
          "aria-pressed": String(options.chosen === flat),
          id: `${options.name}-${flat}`,
          onclick: () => options.onCell(flat),
        },
        formatNumber(x),
      )
    : numberButton(x, options.largest);
  button.tabIndex = -1;
  const classes = [marked, signClass(x, options.largest)].filter(Boolean);
  return h("td", { class: classes.join(" ") || null }, button);
}

/** A number that shows all its digits while it is pressed. */
function numberButton(x, largest) {
  const onclick = ({ currentTarget: button }) => {
    const isOn = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isOn));
    button.textContent = isOn ? allDigits(x) : formatNumber(x);
    announce(button.textContent);
  };
  return h(
    "button",
    {
      type: "button",
      class: `digits ${signClass(x, largest || 1)}`,
      "aria-pressed": "false",
      title: "Show all digits",
      onclick,
    },
    formatNumber(x),
  );
}

/** One cell of a table can be reached by Tab; arrow keys move from there. */
function roveCells(element) {
  const buttons = [...element.querySelectorAll("button")];
  const stop = buttons.find(button => button.getAttribute("aria-pressed") === "true") ?? buttons[0];
  if (stop) stop.tabIndex = 0;
  element.addEventListener("keydown", walkCells);
}

const SMALLEST_TYPE = 11; // pixels, in a table that would be too wide

/** A formula of which one term is too wide gets smaller letters. */
export function fitFormulas(element) {
  for (const part of element.querySelectorAll(".equation")) {
    part.style.fontSize = "";
    const wide = Math.max(...[...part.children].map(term => term.firstChild.getBoundingClientRect().width));
    const most = part.parentElement.clientWidth;
    if (most && wide > most) part.style.fontSize = `${(Math.floor((100 * most) / wide) - 1) / 100}em`;
  }
}

/** Tables that are a little too wide get smaller letters; wider ones say that they scroll. */
export function fitTables(element) {
  const isWide = part => part.scrollWidth > part.clientWidth;
  for (const part of element.querySelectorAll(".tables")) {
    part.style.fontSize = "";
    part.classList.remove("tight", "wide");
    if (!isWide(part)) continue;
    part.classList.add("tight");
    let size = parseFloat(getComputedStyle(part).fontSize);
    if (isWide(part)) size = Math.floor((2 * size * part.clientWidth) / part.scrollWidth) / 2 + 0.5;
    for (; isWide(part) && size > SMALLEST_TYPE; size -= 0.5) part.style.fontSize = `${size - 0.5}px`;
    if (isWide(part)) part.style.fontSize = `${SMALLEST_TYPE}px`;
    part.classList.toggle("wide", isWide(part));
  }
}

/** What scrolls can be reached by Tab, so that keys scroll it. */
export function reachScrollable(element) {
  for (const part of element.querySelectorAll(".tables, .formula, .formulas li, .sum, pre")) {
    const scrolls = part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1;
    if (scrolls && !part.querySelector("button")) part.tabIndex = 0;
  }
}

/** An array's elements, or why they are not shown. */
export function snapshotNumbers(snapshot, options = {}) {
  if (!snapshot.size) return h("p", { class: "hint" }, "No elements.");
  if (!snapshot.numbers)
    return h(
      "p",
      { class: "hint" },
      "The numbers are left out to keep the page small; the statistics are of all of them.",
    );
  const corner =
    !snapshot.whole &&
    h(
      "p",
      { class: "hint" },
      `The first ${snapshot.extent.join(" × ")} of ${snapshot.shape.join(" × ")} numbers:`,
    );
  return [corner, numberTable(snapshot.numbers, snapshot.extent, options)];
}
