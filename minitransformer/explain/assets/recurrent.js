// Stages of a recurrent layer: one step in its parts, what the cell keeps through time, and how far gradients reach.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { css, mixed, pageColours } from "./colours.js";
import { describe, range } from "./derive.js";
import { hint, shownToken, unitOf } from "./elements.js";
import { numbersButton } from "./equation.js";
import { capitalized } from "./map.js";
import { MOST_TOKENS, matrix, placeKey, plainTable, samePlace } from "./matrix.js";
import { brief, largestOf, norm, rowOf } from "./numbers.js";
import { stepRow } from "./output.js";
import { bars, choice, slider, stroke, tileX, wordRow } from "./pictures.js";

/** What a layer of each type computes: [title, terms]. A term is a sign, or [letter, array, whether of the step before]. */
const STEP_PARTS = {
  lstm: [
    [
      "Gates",
      [
        ["a", "from_input"],
        "+",
        ["b", "from_state"],
        "→",
        ["i", "input_gate"],
        ["f", "forget_gate"],
        ["g", "candidate"],
        ["o", "output_gate"],
      ],
    ],
    ["Keep", [["f", "forget_gate"], "·", ["c before", "cell", true], "=", ["kept", "kept"]]],
    ["Add", [["kept", "kept"], "+", ["i", "input_gate"], "·", ["g", "candidate"], "=", ["c", "cell"]]],
    ["Show", [["o", "output_gate"], "·", ["tanh c", "cell_tanh"], "=", ["h", "hidden"]]],
  ],
  gru: [
    [
      "Gates",
      [
        ["a", "from_input"],
        "+",
        ["b", "from_state"],
        "→",
        ["r", "reset_gate"],
        ["z", "update_gate"],
        ["n", "candidate"],
      ],
    ],
    ["Keep", [["z", "update_gate"], "·", ["h before", "hidden", true], "=", ["kept", "kept"]]],
    [
      "Add",
      [["kept", "kept"], "+ (1 −", ["z", "update_gate"], ") ·", ["n", "candidate"], "=", ["h", "hidden"]],
    ],
  ],
  rnn: [["State", ["tanh (", ["a", "from_input"], "+", ["b", "from_state"], ") =", ["h", "hidden"]]]],
};

const STEP_FORMULAS = {
  lstm: "i, f, o = σ(a + b), g = tanh(a + b); c = f · c before + i · g; h = o · tanh(c)",
  gru: "r, z = σ(a + b), n = tanh(a + r · b); h = z · h before + (1 − z) · n",
  rnn: "h = tanh(a + b)",
};

const STEP_THOUGHTS = {
  lstm: unit =>
    `At each ${unit}, the layer forgets a part of its cell, adds something new, and shows a part of it. Gates, numbers from 0 to 1, say how much of each.`,
  gru: unit =>
    `At each ${unit}, the layer keeps a part of its state and replaces the rest. The update gate z, numbers from 0 to 1, says how much.`,
  rnn: unit =>
    `At each ${unit}, the new state is made of the input and of the state before, and is all that the layer remembers.`,
};

/** What carries the state through time: an LSTM's cell. */
function memoryOf(stack) {
  return stack.recurrent === "lstm" ? "cell" : "hidden";
}

/** What is carried through time, in a word. */
function stateWord(e) {
  return memoryOf(e.structure.stacks[0]) === "cell" ? "cell" : "state";
}

/** The gate that says how much of the state before is kept; null: an RNN has none. */
function keepingGate(stack) {
  return { lstm: "forget_gate", gru: "update_gate", rnn: null }[stack.recurrent];
}

function recurrentPart(e, part) {
  return `layers.${e.layers.layers}.${part}`;
}

/** The state after which token, and of which layer. */
function recurrentChoices(e, withToken = true) {
  const { layers } = e.structure.stacks[0];
  return h(
    "div",
    { class: "choices" },
    layers > 1
      ? choice(
          "Layer",
          range(layers, i => [`${i}`, `${i + 1} of ${layers}`]),
          `${e.layers.layers}`,
          i => e.go(`${e.screen}:layers.${i}`),
        )
      : null,
    withToken ? wordRow(e, e.tokensOf("source"), stepRow(e), "Step", i => e.set({ step: i })) : null,
  );
}

export function recurrentName(e) {
  return { lstm: "An LSTM", gru: "A GRU", rnn: "A recurrent network" }[e.structure.stacks[0].recurrent];
}

/** The stages of a recurrent layer. */
export function recurrentStages(e) {
  const { recurrent: type } = e.structure.stacks[0];
  return [
    [
      "gates",
      { lstm: "Gates in four steps", gru: "Gates in three steps", rnn: "One step" }[type],
      gatesScreen,
    ],
    ["memory", `The ${stateWord(e)} through time`, memoryScreen],
    ["through-time", "Gradients through time", throughTimeScreen],
  ];
}

// ---------------------------------------------------------------- one step

function gatesScreen(e) {
  const [stack] = e.structure.stacks;
  const type = stack.recurrent;
  const t = stepRow(e);
  const j = Math.min(e.unit, stack.hidden - 1);
  const arrays = [
    ...new Set(STEP_PARTS[type].flatMap(([, terms]) => terms.filter(Array.isArray).map(([, name]) => name))),
  ];
  return {
    thought: STEP_THOUGHTS[type](unitOf(e)),
    body: [
      recurrentChoices(e),
      h("p", { class: "formula gates-formula" }, STEP_FORMULAS[type]),
      h(
        "ol",
        { class: "steps-in" },
        STEP_PARTS[type].map(([title, terms]) =>
          h(
            "li",
            h("b", title),
            h(
              "span",
              { class: "terms-in" },
              terms.map(term =>
                Array.isArray(term) ? stepTerm(e, term, t, j) : h("span", { class: "sign" }, term),
              ),
            ),
          ),
        ),
      ),
      slider("Number", {
        min: 0,
        max: stack.hidden - 1,
        step: 1,
        value: j,
        text: `${j} of ${stack.hidden}`,
        oninput: unit => e.set({ unit }),
      }),
      hint(
        `Each square shows all ${stack.hidden} numbers of a vector, orange above 0 and blue below. Below it is the number that is framed: click another one, or move the slider. a = W_ih x + b_ih comes from the input, b = W_hh h + b_hh from the state before.`,
      ),
      numbersOf(
        e,
        arrays.map(name => recurrentPart(e, name)),
      ),
    ],
  };
}

/** Arrays as tables, on demand. */
function numbersOf(e, names) {
  return [
    numbersButton(e),
    e.numbers ? names.map(name => matrix(e, name, { title: describe(e, name), current: stepRow(e) })) : null,
  ];
}

/** A vector as a square of cells, and its number j; below it its gradient, if gradients are shown. */
function stepTerm(e, [letter, part, isBefore = false], t, j) {
  const name = recurrentPart(e, part);
  const row = isBefore ? t - 1 : t;
  const isStart = row < 0 || (isBefore && !e.options.memory); // a state of zeros, which is no cell of the record
  const wide = e.record.arrays[name].shape[1] > e.structure.stacks[0].hidden; // the parts of all gates, side by side
  const tile = gradient => {
    const array = (gradient ? e.gradients().activations : e.record.arrays)[name];
    const data = isStart ? new Float32Array(array.shape[1]) : rowOf(array, row);
    const what = `${gradient ? "gradient of " : ""}${describe(e, name)}`;
    const place = { name, index: [row, j], gradient, weight: false };
    const text = brief(data[j]);
    const asked = samePlace(e.quiz?.place, place);
    const button = () =>
      h(
        "button",
        {
          type: "button",
          class: "link",
          "data-key": placeKey(place),
          "aria-pressed": samePlace(e.cell, place) ? "true" : "false",
          "aria-label": `${what}, number ${j}: ${asked ? "?" : text}`,
          onclick: () => e.set({ cell: place }),
        },
        asked ? "?" : text,
      );
    return h(
      "figure",
      { class: gradient ? "tile gradient" : "tile" },
      tilePicture(e, data, `${letter}, ${what}: ${data.length} numbers`, wide ? null : j),
      h(
        "figcaption",
        h("var", gradient ? `∂${letter}` : letter),
        wide ? null : [" ", isStart ? "0" : button()],
      ),
    );
  };
  return e.backward ? h("span", tile(false), tile(true)) : tile(false);
}

const TILE = 64; // pixels on a side

/** The numbers of a vector as cells in a square, one of them framed; a click chooses another one. */
function tilePicture(e, data, label, chosen) {
  const columns = Math.ceil(Math.sqrt(data.length));
  const unit = Math.max(1, Math.floor(TILE / columns));
  const rows = Math.ceil(data.length / columns);
  const onclick =
    chosen === null
      ? null
      : event => {
          const { left, top, width, height } = event.currentTarget.getBoundingClientRect();
          const [x, y] = [
            Math.floor(((event.clientX - left) / width) * columns),
            Math.floor(((event.clientY - top) / height) * rows),
          ];
          e.set({ unit: Math.max(0, Math.min(data.length - 1, y * columns + x)) });
        };
  const canvas = h("canvas", {
    class: "heat",
    width: columns * unit,
    height: rows * unit,
    role: "img",
    "aria-label": label,
    onclick,
  });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(cellPicture(data, columns), 0, 0, columns * unit, rows * unit);
  if (chosen !== null) {
    pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    pen.strokeRect(
      (chosen % columns) * unit + 0.5,
      Math.floor(chosen / columns) * unit + 0.5,
      Math.max(2, unit - 1),
      Math.max(2, unit - 1),
    );
  }
  return canvas;
}

/** The numbers as pixels, in rows of so many columns. */
function cellPicture(data, columns) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, Math.ceil(data.length / columns)];
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  const { paper, positive, negative } = pageColours();
  const largest = largestOf(data) || 1;
  data.forEach((x, i) =>
    image.data.set([...mixed(paper, x < 0 ? negative : positive, Math.abs(x) / largest), 255], 4 * i),
  );
  pen.putImageData(image, 0, 0);
  return canvas;
}

// ---------------------------------------------------------------- through time

function memoryScreen(e) {
  const [stack] = e.structure.stacks;
  const name = recurrentPart(e, memoryOf(stack));
  const gate = keepingGate(stack);
  const what = stateWord(e);
  const words = e.tokensOf("source");
  return {
    thought: `The ${what} goes from ${unitOf(e)} to ${unitOf(e)}: ${stack.hidden} numbers, whatever the length of the text. What is to be remembered has to stay in it.`,
    body: [
      recurrentChoices(e, false),
      timeMap(e, name, words),
      gate
        ? h(
            "section",
            h("h3", `How much of what each ${unitOf(e)} left in the ${what} is still there later`),
            hint(
              `The product of the ${describe(e, recurrentPart(e, gate))} from then on, mean of all ${stack.hidden} numbers.${e.options.memory ? "" : " Memory is switched off: nothing is kept."}`,
            ),
            keptTable(e, recurrentPart(e, gate), words),
          )
        : null,
      numbersOf(e, gate ? [name, recurrentPart(e, gate)] : [name]),
    ],
  };
}

/** The state at each token as a row of cells; a click selects one of its numbers. */
function timeMap(e, name, words) {
  const array = e.record.arrays[name];
  const [T, H] = array.shape;
  const height = Math.max(3, Math.min(18, Math.floor(300 / T)));
  const unit = Math.max(1, Math.floor(768 / H));
  const canvas = h("canvas", {
    class: "strip",
    width: H * unit,
    height: T * height,
    role: "img",
    "aria-label": `${describe(e, name)} through time: ${T} rows from the first ${unitOf(e)} to the last, ${H} columns`,
    onclick: event => {
      const box = event.currentTarget.getBoundingClientRect();
      const at = (position, size, count) =>
        Math.max(0, Math.min(count - 1, Math.floor((position / size) * count)));
      e.set({
        cell: {
          name,
          index: [at(event.clientY - box.top, box.height, T), at(event.clientX - box.left, box.width, H)],
          gradient: false,
          weight: false,
        },
      });
    },
  });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(cellPicture(array.data, H), 0, 0, canvas.width, canvas.height);
  canvas.style.height = `${canvas.height}px`; // beside the words, also where it is narrower
  const every = Math.ceil(15 / height); // rows that have room for their word
  const labels = words.map((word, t) => (t % every ? null : h("li", { style: null }, word)));
  labels.forEach((label, i) => {
    if (label) label.style.top = `${(100 * i) / T}%`;
  });
  return h(
    "figure",
    { class: "time-map" },
    h(
      "figcaption",
      describe(e, name),
      h("span", { class: "size" }, ` ${T} × ${H}`),
      h("span", { class: "quiet" }, "; time goes down"),
    ),
    h(
      "div",
      { class: "time-rows" },
      h("ol", { class: "time-words" }, labels),
      h("div", { class: "time-cells" }, canvas),
    ),
  );
}

/** What is left after token t of what the state was after token s: the mean product of the gates between them. */
function keptTable(e, gate, words) {
  const {
    data,
    shape: [T, H],
  } = e.record.arrays[gate];
  const share = range(T, () => new Float64Array(T));
  for (let s = 0; s < T; s++) {
    const left = new Float64Array(H).fill(1);
    share[s][s] = 1;
    for (let t = s + 1; t < T; t++) {
      for (let j = 0; j < H; j++) left[j] *= e.options.memory ? data[t * H + j] : 0;
      share[s][t] = left.reduce((sum, x) => sum + x, 0) / H;
    }
  }
  return plainTable(e, {
    title: "Share that is still there",
    corner: "left after",
    rows: words,
    columns: words,
    value: (s, t) => (t < s ? -Infinity : share[s][t]),
    text: x => (x === -Infinity ? "" : x.toFixed(2)),
    look: { largest: 1, isProbability: true },
  });
}

// ---------------------------------------------------------------- backward through time

function throughTimeScreen(e) {
  const [stack] = e.structure.stacks;
  const t = stepRow(e);
  const labels = e.labels();
  const { activations } = e.model.backward(e.record, { labels, positions: [t] });
  const name = recurrentPart(e, memoryOf(stack));
  const gate = keepingGate(stack);
  const words = e.tokensOf("source");
  const sizes = range(t + 1, s => norm(rowOf(activations[name], s)));
  const largest = Math.max(...sizes) || 1;
  const lines = [];
  const from = Math.max(0, t + 1 - MOST_TOKENS);
  for (let s = t; s >= from; s--)
    lines.push([words[s], sizes[s] / largest, brief(sizes[s]), { chosen: s === t }]);
  const way = {
    lstm: "Along the cell it is multiplied by the forget gate at each step, and by nothing else: where the gate is near 1, the gradient stays.",
    gru: "Along the state it is multiplied by the update gate at each step: where the gate is near 1, the gradient stays.",
    rnn: "At each step it is multiplied by W_hh and by the slope of tanh, which is at most 1: it tends to vanish.",
  }[stack.recurrent];
  return {
    thought: `The gradient of one loss goes back through time. ${way}`,
    body: [
      recurrentChoices(e),
      h(
        "p",
        `The loss of “${shownToken(e.wordOf(labels[t]))}”, predicted after “${words[t]}”. How long its gradient is at the ${describe(e, name)} of each ${unitOf(e)} before:`,
      ),
      bars(lines, `Length of the gradient at the ${describe(e, name)}, back through time`),
      from > 0
        ? hint(
            `The last ${MOST_TOKENS} of ${t + 1} steps. The gradient at the first ${unitOf(e)} has length ${brief(sizes[0])}.`,
          )
        : null,
      e.options.memory
        ? null
        : h("p", { class: "note" }, "Memory is switched off: nothing before this step counts."),
    ],
  };
}

// ---------------------------------------------------------------- in the picture of the whole model

/** The bands of layer i: an LSTM's cell, and the state. They are `carried` from each token to the next. */
export function recurrentBlocks(stack, i, isCompact) {
  const where = `layer ${i + 1}`;
  const band = (part, text, to, units) => ({
    id: `layers.${i}.${part}`,
    array: `layers.${i}.${part}`,
    text: isCompact ? `Layer ${i + 1}` : `Layer ${i + 1}: ${text}`,
    label: `${capitalized(text)}, ${where}`,
    kind: "recurrent",
    to: `${to}:layers.${i}`,
    path: `layers.${i}`,
    layer: i,
    units,
    attention: null,
    carried: true,
  });
  const state = band("hidden", "state h", "gates", stack.recurrent === "lstm" ? 2.2 : 3.4);
  return stack.recurrent === "lstm" && !isCompact ? [band("cell", "cell c", "memory", 2.2), state] : [state];
}

/** Arrows from the tile of each token to that of the next: the state, and back the gradient. */
export function paintCarried(view, pen, block, light) {
  const y = block.tileY + block.tileHeight / 2;
  const back = light.backward(block);
  for (let t = 0; t + 1 < block.count; t++) {
    const [from, to] = [tileX(block, t) + block.tileWidth + 1, tileX(block, t + 1) - 1];
    const share = light.forward(block, t + 1);
    stroke(pen, css(view.colours.border), 1, [
      [from, y],
      [to, y],
    ]);
    if (to - from < 4) continue;
    const colour = back > 0 ? view.colours.flow : share > 0 ? view.colours.positive : view.colours.border;
    const [tip, tail] = back > 0 ? [from, from + 4] : [to, to - 4];
    stroke(
      pen,
      css(colour),
      2,
      back > 0
        ? [
            [to, y],
            [to + (from - to) * back, y],
          ]
        : [
            [from, y],
            [from + (to - from) * share, y],
          ],
    );
    stroke(pen, css(colour), 2, [
      [tail, y - 4],
      [tip, y],
      [tail, y + 4],
    ]);
  }
}

export function recurrentSentence(e, block) {
  const unit = unitOf(e);
  if (block.array.endsWith(".cell"))
    return `The cell of each ${unit}: a part of the cell before it, which the forget gate keeps, and what the input gate lets in.`;
  return {
    lstm: `The state of each ${unit}: what the output gate shows of the cell.`,
    gru: `The state of each ${unit}: a part of the state before it, and something new.`,
    rnn: `The state of each ${unit}: made of the input, and of the state before it.`,
  }[e.structure.stacks[0].recurrent];
}

/** The formula of a band and its arrays, for its card. */
export function recurrentEquation(e, block) {
  const at = (letter, part) => [letter, `${block.path}.${part}`];
  const { recurrent: type } = e.structure.stacks[0];
  if (block.array.endsWith(".cell"))
    return {
      formula: "c = f · c before + i · g",
      parts: [at("kept", "kept"), "+", at("added", "added"), "=", at("c", "cell")],
      stage: block.to,
    };
  if (type === "lstm")
    return {
      formula: "h = o · tanh(c)",
      parts: [at("o", "output_gate"), "·", at("tanh c", "cell_tanh"), "=", at("h", "hidden")],
      stage: block.to,
    };
  if (type === "gru")
    return {
      formula: "h = z · h before + (1 − z) · n",
      parts: [at("kept", "kept"), "+", at("added", "added"), "=", at("h", "hidden")],
      stage: block.to,
    };
  return {
    formula: "h = tanh(a + b)",
    parts: [at("a", "from_input"), "+", at("b", "from_state"), "→", at("h", "hidden")],
    stage: block.to,
  };
}
