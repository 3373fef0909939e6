// Stages around the attention: add & norm, feed forward, and the layers one after another.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { ACTIVATION_RULES, describe, isThere, range } from "./derive.js";
import { hint, scrolling, shownToken, symbol, titleOfPath, unitOf, unitsOf } from "./elements.js";
import { equation, heightForEquations } from "./equation.js";
import { matrix } from "./matrix.js";
import { norm, percent, precise, rowOf } from "./numbers.js";
import { choice, wordRow } from "./pictures.js";
import { sign } from "./positions.js";
import { largestIndices } from "./state.js";
import { biasOf, dotProduct } from "./words.js";

export function addNormScreen(e) {
  const path = e.residual;
  const stack = e.stackOf(path);
  const sum = e.plan.get(`${path}.sum`);
  const [x, f] = sum.from;
  const kind = stack.norm.kind === "layer" ? "Layer norm" : "RMSNorm";
  const row = `token:${e.sideOfRows(`${path}.sum`)}`;
  const axes = [row, "width"];
  const added = [
    { name: x, title: "x", axes },
    "+",
    { name: f, title: stack.normFirst ? "f(norm(x))" : "f(x)", axes },
    "=",
    { name: `${path}.sum`, title: stack.normFirst ? "x + f(norm(x))" : "x + f(x)", axes },
  ];
  const height = heightForEquations(e, 30) / 2;
  const order = stack.normFirst
    ? [
        norms(e, stack, `${path}.norm`),
        sign("goes through the sub-layer; its output is added to x:"),
        matrix(e, x, { title: "x" }),
        sign("+"),
        matrix(e, f, { title: `f(norm(x)), the ${describe(e, f)}` }),
        sign("="),
        matrix(e, `${path}.sum`, { title: "x + f(norm(x))" }),
      ]
    : [
        matrix(e, x, { title: "x, the input of the sub-layer" }),
        sign("+"),
        matrix(e, f, { title: `f(x), the ${describe(e, f)}` }),
        sign("="),
        matrix(e, `${path}.sum`, { title: "x + f(x)" }),
        norms(e, stack, `${path}.norm`),
      ];
  return {
    thought: stack.normFirst
      ? `Each sub-layer reads a normalized copy of x, and its output is added to x itself: so gradients also have a path around the sub-layer. ${kind} brings every row to the same scale.`
      : `The output of a sub-layer is added to its input: so gradients also have a path around the sub-layer. ${kind} then brings every row to the same scale.`,
    choices: placeChoice(e, "residual", residualPaths(e)),
    body: [
      h("p", { class: "formula" }, stack.normFirst ? "x + f(norm(x))" : "norm(x + f(x))"),
      stack.normFirst
        ? [normEquation(e, stack, `${path}.norm`, height), equation(e, added, height)]
        : [equation(e, added, height), normEquation(e, stack, `${path}.norm`, height, "x + f(x)")],
    ],
    beside: tips(e),
    below: () => order,
  };
}

/** A norm in one row: what is subtracted and divided by, the normalized rows, and the result. */
export function normEquation(e, stack, path, height, title = "x") {
  const part = name => `${path}.${name}`;
  const layer = stack.norm.kind === "layer";
  const bias = isThere(e, e.plan.get(part("output")).bias);
  const [x] = e.plan.get(part("rstd")).from;
  const row = `token:${e.sideOfRows(x)}`;
  const factor = {
    name: part("rstd"),
    title: layer ? "1/σ" : "1/rms",
    axes: [row, "one"],
    columns: [layer ? "1/σ" : "1/rms"],
  };
  return equation(
    e,
    [
      layer
        ? [
            "(",
            { name: x, title, axes: [row, "width"] },
            "−",
            { name: part("mean"), title: "mean", axes: [row, "one"], columns: ["mean"] },
            ") ·",
            factor,
          ]
        : [{ name: x, title, axes: [row, "width"] }, "·", factor],
      "=",
      { name: part("normalized"), title: "x̂", axes: [row, "width"] },
      "→",
      { name: part("output"), title: bias ? "· gain + bias" : "· gain", axes: [row, "width"] },
    ],
    height,
  );
}

/** What one can do with an equation; at the side of stages that have nothing else there. */
export function tips(e) {
  return [
    h("h3", "What one can do here"),
    h(
      "ul",
      h("li", `Point at a cell: its row, its column and its ${unitsOf(e)} light up in every array.`),
      h("li", "Select a cell to see all its digits, and each number that it is made of."),
      h(
        "li",
        e.backward
          ? "Below each array, framed: how the loss changes with it."
          : [h("b", "Gradients"), " (key G) shows below each array how the loss changes with it."],
      ),
      h(
        "li",
        e.isImage
          ? "Draw another image, and every number follows."
          : "Type another text, and every number follows.",
      ),
    ),
    h(
      "p",
      { class: "legend" },
      h("span", { class: "negative" }),
      "negative",
      h("span", { class: "positive" }),
      "positive; the stronger, the larger",
    ),
  ];
}

/** The steps of a layer norm or RMSNorm, whose arrays are at `path`. */
export function norms(e, stack, path) {
  const part = name => `${path}.${name}`;
  const layer = stack.norm.kind === "layer";
  const bias = isThere(e, e.plan.get(part("output")).bias);
  return [
    h(
      "p",
      { class: "formula" },
      layer
        ? `norm(x) = (x − mean) / √(variance + ε) · gain${bias ? " + bias" : ""}`
        : "norm(x) = x / √(mean of x² + ε) · gain",
    ),
    h(
      "div",
      { class: "columns" },
      layer ? matrix(e, part("mean"), { title: "mean", columns: ["mean"] }) : null,
      matrix(e, part("rstd"), { title: describe(e, part("rstd")), columns: [layer ? "1/σ" : "1/rms"] }),
    ),
    matrix(e, part("normalized"), {
      title: layer ? "normalized: mean 0, variance 1" : "normalized: mean square 1",
    }),
    matrix(e, part("output"), { title: bias ? "times gain, plus bias" : "times gain" }),
  ];
}

export function residualPaths(e) {
  return [...e.plan.keys()]
    .filter(name => /residual\d\.sum$/.test(name))
    .map(name => name.replace(/\.sum$/, ""));
}

export function forwardPaths(e) {
  return [...e.plan.keys()]
    .filter(name => name.endsWith("feed_forward.hidden"))
    .map(name => name.replace(/\.hidden$/, ""));
}

function placeChoice(e, key, paths) {
  return h(
    "div",
    { class: "choices" },
    choice(
      "Layer",
      paths.map(path => [path, titleOfResidual(e, path)]),
      e[key],
      path => e.go(`${e.screen}:${path}`),
    ),
  );
}

function titleOfResidual(e, path) {
  const number = path.match(/residual(\d)$/)?.[1];
  if (!number) return titleOfPath(path);
  const last = e.stackOf(path).cross ? "3" : "2";
  const after = number === last ? "feed forward" : number === "1" ? "self-attention" : "cross-attention";
  const [, stack, layer] = path.match(/^(\w+)\.layers\.(\d+)/);
  return `${stack === "layers" ? "" : `${stack} `}layer ${Number(layer) + 1}, after ${after}`;
}

/** `relu(x W₁ + b₁) W₂ + b₂`, with the gate and without the biases that the model does not have. */
export function forwardFormula(e, path) {
  const { activation, gated } = e.stackOf(path);
  const times = (x, name, number) =>
    `${x} W${number}${isThere(e, e.plan.get(`${path}.${name}`).bias) ? ` + b${number}` : ""}`;
  const first = `${activation.replace("_tanh", "")}(${times("x", "linear1", "₁")})`;
  return times(gated ? `(${first} · (${times("x", "linear3", "₃")}))` : first, "output", "₂");
}

export function feedForwardScreen(e) {
  const path = e.forward;
  const stack = e.stackOf(path);
  const part = name => `${path}.${name}`;
  const first = e.plan.get(part("linear1")).from[0];
  const hidden = e.record.arrays[part("hidden")];
  const on = hidden.data.filter(x => x > 0).length;
  const { says } = ACTIVATION_RULES[stack.activation];
  const f = stack.activation.replace("_tanh", "");
  const row = `token:${e.sideOfRows(part("output"))}`;
  const product = (name, number) =>
    sign("times ", symbol(`W_${number}`), biasOf(e, e.plan.get(part(name)).bias), " =");
  return {
    thought: `Each ${unitOf(e)} goes through a wide hidden layer and back, by itself. Attention moves information between the ${unitsOf(e)}; here it is processed.`,
    choices: placeChoice(e, "forward", forwardPaths(e)),
    body: [
      h("p", { class: "formula" }, `FFN(x) = ${forwardFormula(e, path)},  ${says}`),
      equation(
        e,
        [
          { name: first, letter: "X", title: "", axes: [row, "width"] },
          stack.gated ? "→" : "·",
          stack.gated
            ? [
                { name: part("linear1"), title: "gate", axes: [row, "inner"] },
                ",",
                { name: part("linear3"), title: "times", axes: [row, "inner"] },
              ]
            : {
                name: e.plan.get(part("linear1")).weight,
                weight: true,
                transposed: true,
                letter: "W_1",
                title: "",
                axes: ["width", "inner"],
              },
          f,
          { name: part("hidden"), title: "hidden layer", axes: [row, "inner"] },
          "·",
          {
            name: e.plan.get(part("output")).weight,
            weight: true,
            transposed: true,
            letter: "W_2",
            title: "",
            axes: ["inner", "out"],
          },
          "=",
          { name: part("output"), title: "output", axes: [row, "out"] },
        ],
        heightForEquations(e, 40),
      ),
      hint(
        `${on.toLocaleString("en")} of the ${hidden.data.length.toLocaleString("en")} numbers of the hidden layer are above 0.`,
      ),
    ],
    beside: tips(e),
    below: () => [
      matrix(e, first, { title: "input", letter: "X" }),
      product("linear1", 1),
      matrix(e, part("linear1"), { title: stack.gated ? "the gate before its activation" : "first layer" }),
      stack.gated
        ? [
            h("p", "The same input, "),
            product("linear3", 3),
            matrix(e, part("linear3"), { title: "what the gate multiplies" }),
          ]
        : null,
      sign(stack.gated ? `${f} of the first, times the second =` : `${f} of each number =`),
      matrix(e, part("hidden"), {
        title: `hidden layer: ${on.toLocaleString("en")} of ${hidden.data.length.toLocaleString("en")} numbers are above 0`,
      }),
      product("output", 2),
      matrix(e, part("output"), { title: "output" }),
    ],
  };
}

/** What the head of BERT, ViT or T5 computes between the last state and the logits. */
export function outputHeadScreen(e) {
  const last = e.structure.stacks.at(-1);
  const { head, pooler } = e.structure.output;
  const nodes = [...e.plan.values()].filter(
    ({ name }) => name.startsWith("head.") && !name.startsWith("head.norm."),
  );
  const thoughts = {
    masked_lm:
      "BERT's head for masked tokens is one more linear layer with an activation and a norm. Its rows are then compared with the vectors of the vocabulary.",
    similarity:
      "The mean of all last states stands for the text. Divided by its length, its dot product with the vector of another sentence is the cosine of their angle; the logits are 20 times the cosines.",
    image_classification:
      "The last state of the class token stands for the whole image: it alone is classified.",
  };
  const signs = {
    linear: node => sign("times a learned matrix", biasOf(e, node.bias), " ="),
    activate: node => sign(`${node.activation.replace("_tanh", "")} of each number =`),
    first: () => sign("row 0, of [CLS] ="),
    average: () => sign("the mean of its rows ="),
    unit: () => sign("divided by its length ="),
    scale: node => sign(`times 1/√d = ${precise(node.factor)} =`),
  };
  return {
    thought:
      thoughts[head] ??
      (pooler
        ? `The last state of [CLS] stands for the whole text. A linear layer and ${pooler} turn it into the vector that is classified.`
        : "So that the logits do not become too large, the last states are multiplied by 1/√d before the output layer."),
    body: [
      equation(
        e,
        [nodes[0].from[0], ...nodes.map(node => node.name)].map((name, i) => [
          i ? "→" : null,
          {
            name,
            title: describe(e, name),
            axes: [e.record.arrays[name].shape[0] === 1 ? "first" : "token:source", `width ${i}`],
          },
        ]),
        heightForEquations(e, 200),
      ),
      e.plan.has("head.norm.output") ? normEquation(e, last, "head.norm", heightForEquations(e) / 2) : null,
    ],
    beside: tips(e),
    below: () => [
      matrix(e, nodes[0].from[0], { title: describe(e, nodes[0].from[0]) }),
      nodes.map(node => [signs[node.kind](node), matrix(e, node.name, { title: describe(e, node.name) })]),
      e.plan.has("head.norm.output") ? norms(e, last, "head.norm") : null,
    ],
  };
}

/** The state of one token after each layer, and which word it would give there (logit lens). */
export function layersScreen(e) {
  const stack = e.structure.stacks.find(each => each.name === e.lensStack) ?? e.structure.stacks.at(-1);
  const rows = layerOutputs(e, stack);
  const side = stack.name === "decoder" ? "target" : "source";
  const words = e.tokensOf(side);
  const t = Math.min(stack === e.structure.stacks.at(-1) ? e.step : e.word, words.length - 1);
  const speaks = !e.isImage && (!e.structure.output.head || e.structure.output.head === "masked_lm");
  return {
    thought: `All layers have the same form, and each reads the output of the one before.${speaks ? ` Through the output layer, each state can be read as probabilities of ${unitsOf(e)} (logit lens).` : ""}`,
    body: [
      e.structure.stacks.length > 1
        ? h(
            "div",
            { class: "choices" },
            choice(
              "Stack",
              e.structure.stacks.map(each => [each.name, each.name]),
              stack.name,
              name => e.set({ lensStack: name }),
            ),
          )
        : null,
      wordRow(
        e,
        words,
        t,
        "Token",
        i => e.set(stack === e.structure.stacks.at(-1) ? { step: i, word: i } : { word: i }),
        side,
      ),
      equation(
        e,
        [
          {
            title: `the state of “${words[t]}” after each layer`,
            rows: rows.map(([label]) => label),
            columns: range(stack.width, j => `${j}`),
            axes: ["layer:all", "width"],
            value: (i, j) => rowOf(e.record.arrays[rows[i][1]], t)[j],
          },
        ],
        Math.min(26 * rows.length, heightForEquations(e)),
      ),
      scrolling(
        "Layers",
        h(
          "table",
          { class: "steps" },
          h(
            "thead",
            h(
              "tr",
              ["after", "size of the state", "angle to row above", speaks ? "likeliest" : ""].map(
                (text, i) =>
                  text
                    ? h("th", { scope: "col", class: i === 3 ? "wrap" : i ? "short" : null }, text)
                    : h("td"),
              ),
            ),
          ),
          h(
            "tbody",
            rows.map(([label, name], i) => {
              const state = rowOf(e.record.arrays[name], t);
              const before = i ? rowOf(e.record.arrays[rows[i - 1][1]], t) : null;
              const cosine = before ? dotProduct(state, before) / (norm(state) * norm(before) || 1) : 1;
              return h(
                "tr",
                h("th", { scope: "row" }, label),
                h("td", norm(state).toFixed(2)),
                h(
                  "td",
                  before
                    ? `${((180 * Math.acos(Math.max(-1, Math.min(1, cosine)))) / Math.PI).toFixed(0)}°`
                    : "",
                ),
                h(
                  "td",
                  { class: "wrap" },
                  speaks
                    ? lens(e, state, stack, name === `${stack.name}.norm.output`).map(([word, p]) =>
                        h("span", { class: "chip" }, `${word} ${percent(p)}`),
                      )
                    : "",
                ),
              );
            }),
          ),
        ),
      ),
      speaks
        ? hint(
            stack.name === "encoder" && e.isPair
              ? `The encoder is not trained to predict ${unitsOf(e)}: what is likeliest here need not mean anything.`
              : "The last line is the model's own answer. The states before it were not trained to be read in this way.",
          )
        : null,
    ],
    beside: tips(e),
  };
}

function layerOutputs(e, stack) {
  const rows = [["input", `${stack.name}.input`]];
  if (stack.recurrent) {
    if (stack.width !== stack.hidden) rows.pop(); // no state: it cannot be read as one
    return [...rows, ...range(stack.layers, i => [`layer ${i + 1}`, `${stack.name}.${i}.hidden`])];
  }
  for (let i = 0; i < stack.layers; i++) {
    const last = `${stack.name}.layers.${i}.residual${stack.cross ? 3 : 2}`;
    rows.push([`layer ${i + 1}`, stack.normFirst ? `${last}.sum` : `${last}.norm.output`]);
  }
  if (stack.finalNorm) rows.push(["final norm", `${stack.name}.norm.output`]);
  return rows;
}

/** The likeliest words of a state, read with the final norm (of pre-norm models) and the output layer. */
function lens(e, state, stack, isNormed) {
  const kind = stack.norm?.kind === "layer" ? "layer_norm" : "rms_norm";
  const final =
    stack.finalNorm && !isNormed ? { path: `${stack.name}.norm`, norm: kind, layer_norm_eps: e.eps } : null;
  const p = e.model.lens(state, final);
  return largestIndices(p, 3).map(i => [shownToken(e.tokenOf(i)), p[i]]);
}
