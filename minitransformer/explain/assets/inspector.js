// Where a number comes from: the numbers behind the selected cell. Each of them can be selected in turn.

import { flat, h } from "../../../minigrad/graph/assets/dom.js";
import { headClass } from "./colours.js";
import { derive, describe } from "./derive.js";
import { deriveGradient, deriveWeightGradient } from "./gradients.js";
import { placeKey, samePlace, tint } from "./matrix.js";
import { brief, elementOf, precise } from "./numbers.js";
import { quizForm } from "./quiz.js";
import { update } from "./update.js";

const MOST_ROWS = 160;
let trail = []; // the cells that were looked at before

export function renderInspector(e) {
  const panel = document.getElementById("inspector");
  panel.hidden = !e.cell && !e.quiz;
  document.body.classList.toggle("inspecting", !panel.hidden);
  if (panel.hidden) {
    trail = [];
    return panel.replaceChildren();
  }
  trail = trail.filter(place => e.holds(place));
  const free = document.querySelector(".with-side")?.offsetTop; // what is at the side of an equation may be covered
  panel.style.top = free && window.innerWidth >= 1280 ? `${Math.min(free, window.innerHeight / 2)}px` : "";
  const content = flat(inspectorContent(e, e.cell));
  const place = e.cell ? placeKey(e.cell) : "";
  if (panel.dataset.place === place) return update(panel, content);
  panel.replaceChildren(...content);
  panel.dataset.place = place;
}

function inspectorContent(e, place) {
  const asked = samePlace(e.quiz?.place, place);
  const close = h(
    "button",
    {
      type: "button",
      class: "close",
      "aria-label": "Close",
      "data-key": "close",
      onclick: () => e.set({ cell: null, quiz: null }),
    },
    "✕",
  );
  const back = trail.length
    ? h(
        "button",
        { type: "button", "data-key": "back", onclick: () => e.set({ cell: trail.pop() }) },
        "← Back",
      )
    : null;
  return [
    h("div", { class: "inspector-head" }, h("h2", place ? placeTitle(e, place) : "Quiz"), back, close),
    place && h("p", { class: "value" }, asked ? "?" : precise(valueAt(e, place))),
    e.quiz && (asked || !e.quiz.place) ? quizForm(e) : null,
    place && derivationParts(e, derivationOf(e, place), place, asked),
    place && !asked ? otherSide(e, place) : null,
  ];
}

export function valueAt(e, { name, index, gradient, weight }) {
  const arrays = gradient
    ? weight
      ? e.gradients().weights
      : e.gradients().activations
    : weight
      ? e.weights
      : e.record.arrays;
  return elementOf(arrays[name], index);
}

function derivationOf(e, { name, index, gradient, weight }) {
  if (weight)
    return gradient
      ? deriveWeightGradient(e, name, index)
      : {
          equation: "A learned number: training moved it here, step by step, against its gradient.",
          value: elementOf(e.weights[name], index),
        };
  return gradient ? deriveGradient(e, name, index) : derive(e, name, index);
}

function placeTitle(e, { name, index, gradient, weight }) {
  const [row, column] = index.slice(-2);
  const what = weight ? weightName(name) : describe(e, name);
  const head =
    !weight && index.length === 3
      ? [" of ", h("span", { class: headClass(index[0]) }, `head ${index[0] + 1}`)]
      : null;
  const where = weight
    ? `[${index.join(", ")}]`
    : `${e.rowLabel(name, row)} · ${e.columnLabel(name, column)}`;
  return [gradient ? "Gradient of " : "", what, head, ": ", h("span", { class: "place" }, where)];
}

function weightName(name) {
  if (/embedding\.weight$/.test(name)) return "E, the token vectors";
  if (name.endsWith("in_proj_weight")) return "W_Q, W_K, W_V";
  if (name.endsWith("in_proj_bias")) return "bias of Q, K, V";
  if (name.endsWith("out_proj.weight")) return "W_O";
  return name;
}

/** One table of numbers for each part of a derivation. */
function derivationParts(e, found, place, isAsked) {
  const parts = found.parts ?? [found];
  const elements = parts.map(part => [
    found.parts && part.to ? h("h3", `Sent back by ${describe(e, part.to)} `, h("code", part.to)) : null,
    h("p", { class: "equation" }, part.equation),
    part.rows?.length ? partTable(e, part, isAsked) : null,
    isAsked
      ? null
      : (part.lines ?? []).map(([label, how, value]) =>
          h("p", { class: "line" }, `${label}${how ? `: ${how}` : ""} = `, h("b", precise(value))),
        ),
  ]);
  if (found.parts?.length > 1)
    elements.push(
      h("p", { class: "line" }, `The sum of these ${found.parts.length} = `, h("b", precise(found.value))),
    );
  if (found.parts?.length === 0)
    elements.push(
      h(
        "p",
        { class: "equation" },
        "Nothing that the loss is computed from uses this number: its gradient is 0.",
      ),
    );
  return elements;
}

function partTable(e, part, isAsked) {
  const isSum = !part.isShares && !part.noSum;
  let rows = part.rows;
  let rest = null;
  if (rows.length > MOST_ROWS) {
    const size = row => Math.abs(row.at(-1).value);
    const order = [...rows].sort((a, b) => size(b) - size(a));
    rest = order.slice(100).reduce((sum, row) => sum + row.at(-1).value, 0);
    rows = order.slice(0, 100);
  }
  const largest = Math.max(...rows.map(row => Math.abs(row.at(-1).value)));
  const body = rows.map(([label, ...numbers]) =>
    h(
      "tr",
      h("th", { scope: "row" }, label),
      numbers.map((x, i) => {
        const td = h(
          "td",
          { class: x.chosen ? "chosen" : null },
          isAsked && (x.chosen || (part.isShares && i > 0)) ? "?" : x.name ? link(e, x) : brief(x.value),
        );
        if (isSum && i === numbers.length - 1) tint(td, x.value, { largest });
        return td;
      }),
    ),
  );
  const span = part.columns.length;
  const line = (label, value) => h("tr", h("th", { scope: "row", colspan: span - 1 }, label), h("td", value));
  const foot = [
    rest === null ? null : line(`the other ${part.rows.length - 100} products`, brief(rest)),
    ...(part.more ?? []).map(([label, x]) => line(label, x.name ? link(e, x) : brief(x.value))),
    isSum && !isAsked && (rows.length > 1 || part.more?.length)
      ? line("sum", h("b", precise(part.value)))
      : null,
  ];
  return h(
    "div",
    { class: "scroll terms", tabindex: 0, role: "region", "aria-label": part.equation },
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          part.columns.map(column => (column ? h("th", { scope: "col" }, column) : h("td"))),
        ),
      ),
      h("tbody", body),
      h("tfoot", foot),
    ),
  );
}

/** A number that leads to its own derivation. */
function link(e, x) {
  const place = { name: x.name, index: x.index, gradient: Boolean(x.gradient), weight: Boolean(x.weight) };
  return h(
    "button",
    {
      type: "button",
      class: "link",
      "aria-label": `${brief(x.value)}: where it comes from`,
      onclick: () => {
        trail.push(e.cell);
        e.set({ cell: place });
      },
    },
    brief(x.value),
  );
}

/** From a number to its gradient, and back. */
function otherSide(e, place) {
  if (!e.backward) return [];
  const other = { ...place, gradient: !place.gradient };
  const known = place.weight || place.name in e.gradients().activations;
  if (!known) return [];
  const label = place.gradient ? "The number itself" : "Its gradient";
  return [
    h(
      "p",
      h(
        "button",
        { type: "button", "data-key": "other", onclick: () => e.set({ cell: other }) },
        `${label}: ${precise(valueAt(e, other))}`,
      ),
    ),
  ];
}
