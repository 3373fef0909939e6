// Small pictures: bars, heat maps of all heads, arcs between words.

import { h, s } from "../../../minigrad/graph/assets/dom.js";
import { css, headClass, headColour, mixed, pageColours } from "./colours.js";
import { range } from "./derive.js";
import { scrolling, titleOfRows } from "./elements.js";
import { equation, widthForEquations } from "./equation.js";
import { pictured } from "./image.js";
import { elementOf, percent } from "./numbers.js";
import { isOff, largestIndices } from "./state.js";

/**
 * Horizontal bars: [label, value in 0..1, text, {chosen, faded, before}]; the value before is an outline. If they are
 * signed, values are in -1..1, and a bar goes from the middle to the left or the right.
 */
export function bars(rows, label, isSigned = false) {
  return h(
    "table",
    { class: isSigned ? "bars signed" : "bars" },
    h("caption", { class: "unseen" }, label),
    h(
      "tbody",
      rows.map(([name, share, text, more = {}]) => {
        const bar = h("span", { class: share < 0 ? "bar negative" : "bar" });
        bar.style.width = `${(isSigned ? 50 : 100) * Math.min(1, Math.abs(share))}%`;
        if (isSigned) bar.style.marginLeft = `${50 + Math.min(0, 50 * share)}%`;
        const ghost = !(more.before > 0.005) ? null : h("span", { class: "ghost" });
        if (ghost) ghost.style.width = `calc(${more.before} * (100% - 16px))`;
        return h(
          "tr",
          { class: [more.chosen ? "chosen" : "", more.faded ? "faded" : ""].join(" ").trim() || null },
          h("th", { scope: "row" }, typeof name === "string" ? breakable(name) : name),
          h("td", { class: "track" }, bar, ghost),
          h("td", { class: "amount" }, text),
        );
      }),
    ),
  );
}

/** A name that may be broken after its dots: `decoder.layers.0.feed_forward`. */
function breakable(name) {
  return name.split(/(?<=[a-z\d]\.)(?=[a-z\d])/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
}

/** A small heat map without numbers, as a picture. */
export function heatPicture(array, head, label) {
  const [, rows, columns] = array.shape;
  const most = window.innerHeight < 800 ? 78 : 110;
  const size = Math.max(1, Math.min(20, Math.floor(most / Math.max(rows, columns))));
  const canvas = h("canvas", {
    class: "heat",
    width: columns * size,
    height: rows * size,
    role: "img",
    "aria-label": label,
  });
  const pen = canvas.getContext("2d");
  const colours = pageColours();
  for (let t = 0; t < rows; t++)
    for (let u = 0; u < columns; u++) {
      pen.fillStyle = css(
        mixed(colours.paper, headColour(colours, head), elementOf(array, [head, t, u])),
      );
      pen.fillRect(u * size, t * size, size, size);
    }
  return canvas;
}

/** A button for each head, in its colour. `isOffAt` says which are switched off. */
export function headButtons(count, current, isOffAt, onclick, key = "head") {
  return h(
    "div",
    { class: "together", role: "group", "aria-label": "Head" },
    range(count, i =>
      h(
        "button",
        {
          type: "button",
          class: isOffAt(i) ? `${headClass(i)} off` : headClass(i),
          title: isOffAt(i) ? "switched off" : null,
          "aria-pressed": i === current ? "true" : "false",
          "data-key": `${key}:${i}`,
          onclick: () => onclick(i),
        },
        h("span", { class: "name" }, "Head "),
        `${i + 1}`,
      ),
    ),
  );
}

/** Arcs between words: as wide as the weight, from the query above to the key below; `bright(t, u)` dims them. */
function arcs(weights, head, queries, keys, sides, bright, rowsTitle, isMean) {
  const count = Math.max(queries.length, keys.length);
  const longest = Math.min(11, Math.max(...[...queries, ...keys].map(text => text.length)));
  const isNarrow = window.innerWidth < 600; // as many as fit, with shorter words
  const step = isNarrow
    ? Math.max(40, Math.min(110, (widthForEquations() - 20) / count))
    : Math.max(58, 9 * longest, Math.min(110, (Math.min(640, widthForEquations()) - 20) / count));
  const most = isNarrow ? Math.max(3, Math.floor(step / 8.5)) : 11;
  const width = count * step + 20;
  const height = rowsTitle ? 203 : 190;
  const x = i => 10 + step * (i + 0.5);
  const lines = [];
  queries.forEach((_, t) => {
    keys.forEach((_, u) => {
      const weight = elementOf(weights, [head, t, u]);
      if (weight < 0.02) return;
      lines.push(
        s(
          "path",
          {
            class: "arc",
            "data-query": `${sides[0]}:${t}`,
            "data-attended": `${sides[1]}:${u}`,
            d: `M${x(t)} 34 C${x(t)} 95 ${x(u)} 95 ${x(u)} 156`,
            "stroke-width": (1 + 9 * weight).toFixed(1),
            "stroke-opacity": (bright(t, u) * (0.15 + 0.85 * weight)).toFixed(2),
          },
          s("title", `${queries[t]} attends to ${keys[u]}: ${percent(weight)}`),
        ),
      );
    });
  });
  const title = (text, y) => s("text", { class: "arcs-title", x: 3, y }, text);
  const word = (text, i, y, side) =>
    s(
      "text",
      { x: x(i), y, "text-anchor": "middle", "data-token": `${side}:${i}` },
      text.length > most ? `${text.slice(0, most - 1)}…` : text,
      text.length > most ? s("title", text) : null,
    );
  return scrolling(
    "Arcs of attention",
    s(
      "svg",
      {
        class: isMean ? "arcs" : `arcs ${headClass(head)}`,
        viewBox: `0 ${rowsTitle ? -6 : 0} ${width} ${height}`, // a title has room above its words
        width,
        height,
        role: "img",
        "aria-label": `Arcs from each query to the keys that it attends to, ${isMean ? "mean of all heads" : `head ${head + 1}`}`,
      },
      lines,
      queries.map((text, i) => word(text, i, 24, sides[0])),
      keys.map((text, i) => word(text, i, 178, sides[1])),
      rowsTitle ? [title(`${rowsTitle}:`, 4), title("looks at", 194)] : null,
    ),
  );
}

const MOST_ARCS = 12; // from as many words on, arcs are a tangle

/** Which words attend to which: arcs of a short text, a heat map of a long one, or what the reader chose. */
export function attentionPicture(e, weights, head, [queries, keys], sides, bright, isMean = false) {
  const isHeat = e.asHeat ?? Math.max(queries.length, keys.length) >= MOST_ARCS;
  const value = (t, u) => elementOf(weights, [head, t, u]);
  const height = Math.max(150, Math.min(330, window.innerHeight - (e.isImage ? 560 : 420))); // to the end of the screen
  return h(
    "div",
    { class: "attention-picture" },
    h(
      "div",
      { class: "together", role: "group", "aria-label": "Attention as" },
      [
        ["Arcs", false],
        ["Heat map", true],
      ].map(([text, asHeat]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": asHeat === isHeat ? "true" : "false",
            "data-key": `picture:${text}`,
            onclick: () => e.set({ asHeat }),
          },
          text,
        ),
      ),
    ),
    isHeat
      ? equation(
          e,
          [
            {
              title: "weights: queries down, keys across",
              rows: queries,
              columns: keys,
              value,
              head: isMean ? undefined : head,
              bright,
              isProbability: true,
              axes: [`token:${sides[0]}`, `key:${sides[1]}`],
            },
          ],
          height,
          Math.min(340, widthForEquations()),
        )
      : arcs(weights, head, queries, keys, sides, bright, titleOfRows(e, `token:${sides[0]}`), isMean),
  );
}

/** Words in a row, one of them current. `side`: whose tokens they are. */
export function wordRow(e, words, current, label, onclick, side = null) {
  return h(
    "ol",
    { class: words.length < MOST_ARCS ? "words" : "words many", "aria-label": label },
    words.map((word, i) =>
      h(
        "li",
        { class: i === current ? "current" : null, "data-token": side ? `${side}:${i}` : null },
        h(
          "button",
          {
            type: "button",
            "aria-pressed": i === current ? "true" : "false",
            "data-key": `${label}:${i}`,
            onclick: () => onclick(i),
          },
          pictured(e, word, true),
        ),
      ),
    ),
  );
}

export function choice(label, options, value, onchange) {
  return h(
    "label",
    { class: "choice" },
    h("span", { class: "name" }, label),
    h(
      "select",
      { "data-key": `choice:${label}`, onchange: event => onchange(event.target.value) },
      options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
    ),
  );
}

export function slider(label, { min, max, step, value, text, oninput }) {
  return h(
    "label",
    { class: "slider" },
    h("span", label),
    h("input", {
      type: "range",
      min,
      max,
      step,
      value,
      "aria-valuetext": text,
      "data-key": `slider:${label}`,
      oninput: event => oninput(Number(event.target.value)),
    }),
    h("output", text),
  );
}

export function checkbox(label, checked, onchange, key = label) {
  return h(
    "label",
    { class: "switch" },
    h("input", {
      type: "checkbox",
      checked,
      "data-key": `check:${key}`,
      onchange: event => onchange(event.target.checked),
    }),
    label,
  );
}

/** Each thing with its share as a colour; the three largest with their numbers, or only those if there are many. */
export function shares(e, names, values, text, largest = 1) {
  const best = largestIndices(values, 3);
  const shown = names.length > MOST_ARCS ? [...best].sort((a, b) => a - b) : range(names.length, u => u);
  return h(
    "p",
    { class: "shares", dir: "auto" },
    shown.map(u => {
      const isBest = best.includes(u) && values[u] > 0;
      const chip = h(
        "span",
        { class: isBest ? "looked best" : "looked" },
        pictured(e, names[u], true),
        isBest ? h("b", ` ${text(values[u])}`) : null,
      );
      chip.style.setProperty("--share", `${Math.round((100 * values[u]) / (largest || 1))}%`);
      return chip;
    }),
  );
}

/** How bright the attention of a query to a key is drawn: `bright(t, u)` of a head, or of the mean of all (null). */
export function brightnessOf(e, path, head) {
  const faint = 0.2; // of a head that is off
  if (head !== null) return isOff(e, path, head) ? () => faint : () => 1;
  const off = e.options.ablated[path] ?? [];
  const weights = e.record.arrays[`${path}.weights`];
  const sum = (heads, t, u) => heads.reduce((total, i) => total + elementOf(weights, [i, t, u]), 0);
  const all = range(weights.shape[0], i => i);
  return off.length ? (t, u) => 1 - ((1 - faint) * sum(off, t, u)) / (sum(all, t, u) || 1) : () => 1;
}

/** The text of a probability, and what its bar shows: with the one before, if the model is changed. */
export function compared(e, t, v, p) {
  if (!e.before) return [percent(p), {}];
  const was = elementOf(e.before.record.arrays.probabilities, [t, v]);
  return [`${percent(was)} → ${percent(p)}`, { before: was }];
}

export function stroke(pen, style, width, points) {
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

export function tileX(block, t) {
  return Math.round(middleOf(block, t) - block.tileWidth / 2);
}

/** The middle of a token's column. */
export function middleOf(block, t) {
  return block.x + (t + 0.5) * block.step;
}
