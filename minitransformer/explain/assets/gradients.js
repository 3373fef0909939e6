// The same backward: what each step that used a number sends back to it. The sum of these is its gradient.

import {
  ACTIVATION_RULES,
  describe,
  factorOf,
  inputAt,
  lengthOf,
  matrixLetter,
  placed,
  productSum,
  range,
  rotation,
  weightAt,
} from "./derive.js";
import { answerUnit, shownToken } from "./elements.js";
import { brief } from "./numbers.js";

/** The steps that use an array, each with the place of the array among its inputs. */
function consumersOf(plan, name) {
  const found = [];
  for (const node of plan.values()) {
    if (node.name !== "probabilities")
      node.from.forEach((from, slot) => from === name && found.push({ node, slot }));
  }
  return found;
}

/** The derivation of the gradient of one number: one part for each step that uses it. */
export function deriveGradient(c, name, index) {
  const node = c.plan.get(name);
  if (name === "logits")
    return { node, parts: [crossEntropyPull(c, index)], value: crossEntropyPull(c, index).value };
  const parts = consumersOf(c.plan, name).map(({ node, slot }) => ({
    ...PULLS[node.kind](c, node, slot, index),
    to: node.name,
  }));
  return { node, parts, value: parts.reduce((sum, part) => sum + part.value, 0) };
}

/** Cross-entropy: ∂loss/∂logit = (p − y) / N. */
function crossEntropyPull(c, [t, v]) {
  const chosen = c.lossPositions();
  if (!chosen.includes(t))
    return { equation: "The loss of this position does not count.", rows: [], value: 0, to: "loss" };
  const p = placed(c, "probabilities", [t, v]);
  const y = { value: c.labels()[t] === v ? 1 : 0 };
  const value = (p.value - y.value) / chosen.length;
  return {
    to: "loss",
    equation: `cross-entropy: (p − y) / N, y is 1 for the right ${answerUnit(c)} “${shownToken(c.wordOf(c.labels()[t]))}”, N = ${chosen.length}`,
    columns: ["", "number"],
    rows: [
      ["p", p],
      ["y", y],
    ],
    noSum: true,
    lines: [["gradient", `(${brief(p.value)} − ${y.value}) / ${chosen.length}`, value]],
    value,
  };
}

/** The gradient that arrives at a step's result. */
function arriving(c, node, index) {
  return placed(c, node.name, index, true);
}

function passOn(c, node, index, equation) {
  const g = arriving(c, node, index);
  return { equation, columns: ["", "gradient"], rows: [["", g]], value: g.value };
}

const PULLS = {
  scale(c, node, slot, index) {
    const { factor, says } = factorOf(c, node);
    return productSum(
      `x was multiplied by ${says}; so is the gradient`,
      ["", "gradient", "factor"],
      [["", arriving(c, node, index), { value: factor }]],
    );
  },
  add: (c, node, slot, index) => passOn(c, node, index, "A sum passes the gradient on, unchanged."),
  same: (c, node, slot, index) => passOn(c, node, index, "The same number, so the same gradient."),
  join(c, node, slot, [t, j]) {
    const first = slot ? c.record.arrays[node.from[0]].shape[1] : 0;
    return passOn(c, node, [t, first + j], "Passed on, unchanged.");
  },
  stack: (c, node, slot, [t, j]) => passOn(c, node, [slot ? t + 1 : 0, j], "Passed on, unchanged."),
  first(c, node, slot, [t, j]) {
    return t === 0
      ? passOn(c, node, [0, j], "The first state went on.")
      : { equation: "Only the first state went on.", rows: [], value: 0 };
  },
  average(c, node, slot, [, j]) {
    const [T] = c.record.arrays[node.from[0]].shape;
    const g = arriving(c, node, [0, j]);
    return {
      equation: `Each of the ${T} states has the same part in the mean.`,
      columns: ["", "gradient"],
      rows: [["", g]],
      noSum: true,
      lines: [["gradient", `${brief(g.value)} / ${T}`, g.value / T]],
      value: g.value / T,
    };
  },
  unit(c, node, slot, [, j]) {
    const u = c.record.arrays[node.name].data;
    const g = c.gradients().activations[node.name].data;
    const length = lengthOf(c.record.arrays[node.from[0]].data);
    const along = g.reduce((sum, value, i) => sum + value * u[i], 0);
    const value = (g[j] - u[j] * along) / length;
    return {
      equation: "A unit vector u only turns: (g − u (g · u)) / length.",
      columns: ["", "number"],
      rows: [
        ["g", arriving(c, node, [0, j])],
        ["u", placed(c, node.name, [0, j])],
      ],
      noSum: true,
      lines: [
        ["g · u", "", along],
        ["gradient", `(${brief(g[j])} − ${brief(u[j])} · ${brief(along)}) / ${brief(length)}`, value],
      ],
      value,
    };
  },
  concat(c, node, slot, [head, t, j]) {
    const width = c.record.arrays[node.from[0]].shape[2];
    return passOn(c, node, [t, head * width + j], "Side by side: passed on, unchanged.");
  },
  project(c, node, slot, [t, i]) {
    const letter = node.letter.toUpperCase();
    const pairs = [];
    for (let head = 0; head < node.heads; head++) {
      for (let j = 0; j < node.width; j++) {
        pairs.push([
          `${head + 1}:${j}`,
          arriving(c, node, [head, t, j]),
          weightAt(c, node.weight, [node.first + head * node.width + j, i]),
        ]);
      }
    }
    return productSum(
      `gradient of ${letter}, all heads · row ${i} of W_${letter}`,
      ["head:j", `∂${letter}`, `W_${letter}`],
      pairs,
    );
  },
  linear(c, node, slot, [t, i]) {
    const [outputs, width] = c.weights[node.weight].shape;
    if (i >= width) return { equation: "Not part of the product.", rows: [], value: 0 };
    const letter = matrixLetter(node);
    const later = laterStep(c, node, slot, t);
    if (later === null) return noLaterStep(c);
    const pairs = range(outputs, j => [
      `${j}`,
      arriving(c, node, [later, j]),
      weightAt(c, node.weight, [j, i]),
    ]);
    return productSum(
      `${later === t ? "" : "the next step: "}gradient of ${describe(c, node.name)} · row ${i} of ${letter}`,
      ["j", "gradient", letter],
      pairs,
    );
  },
  rotate(c, node, slot, [head, t, j]) {
    const half = c.record.arrays[node.name].shape[2] / 2;
    const i = j % half;
    const angle = rotation(c, node, t, i);
    const [first, second] = [arriving(c, node, [head, t, i]), arriving(c, node, [head, t, i + half])];
    const [ca, cb] = j < half ? [Math.cos(angle), Math.sin(angle)] : [-Math.sin(angle), Math.cos(angle)];
    return productSum(
      "Rotated back, by the negative angle.",
      ["column", "gradient", j < half ? "cos, sin" : "−sin, cos"],
      [
        [`${i}`, first, { value: ca }],
        [`${i + half}`, second, { value: cb }],
      ],
    );
  },
  scores(c, node, slot, [head, t, j]) {
    const [, queries, keys] = c.record.arrays[node.name].shape;
    if (slot === 0) {
      const shared = Math.floor(head / node.groups);
      const pairs = range(keys, u => [
        c.columnLabel(node.name, u),
        arriving(c, node, [head, t, u]),
        placed(c, node.from[1], [shared, u, j]),
      ]);
      return productSum("gradients of the query's scores, times the keys", ["key", "∂score", "k"], pairs);
    }
    const pairs = [];
    for (let g = 0; g < node.groups; g++) {
      const own = head * node.groups + g;
      for (let r = 0; r < queries; r++)
        pairs.push([
          c.rowLabel(node.name, r),
          arriving(c, node, [own, r, t]),
          placed(c, node.from[0], [own, r, j]),
        ]);
    }
    return productSum("gradients of the key's scores, times the queries", ["query", "∂score", "q"], pairs);
  },
  mask(c, node, slot, index) {
    const hidden = node.causal && c.options.causal !== false && index[2] > index[1];
    return hidden
      ? { equation: "Hidden by the mask: no gradient.", rows: [], value: 0 }
      : passOn(c, node, index, "May be seen: passed on.");
  },
  softmax(c, node, slot, [head, t, u]) {
    const count = c.record.arrays[node.name].shape[2];
    const rows = range(count, r => {
      const [w, g] = [placed(c, node.name, [head, t, r]), arriving(c, node, [head, t, r])];
      return [c.columnLabel(node.name, r), w, g, { value: w.value * g.value }];
    });
    const mean = rows.reduce((sum, row) => sum + row[3].value, 0);
    const [w, g] = [rows[u][1].value, rows[u][2].value];
    return {
      equation: "softmax: w · (g − Σ w g). Only what differs from the weighted mean of the gradients counts.",
      columns: ["", "w", "g", "w · g"],
      rows,
      isShares: true,
      lines: [
        ["Σ w g", "", mean],
        ["w (g − Σ w g)", `${brief(w)} · (${brief(g)} − ${brief(mean)})`, w * (g - mean)],
      ],
      value: w * (g - mean),
    };
  },
  mix(c, node, slot, [head, t, j]) {
    const off = own => (c.options.ablated?.[node.path] ?? []).includes(own);
    const [, queries, width] = c.record.arrays[node.name].shape;
    if (slot === 0) {
      if (off(head)) return { equation: "This head is switched off: no gradient.", rows: [], value: 0 };
      const shared = Math.floor(head / node.groups);
      const pairs = range(width, i => [
        `${i}`,
        arriving(c, node, [head, t, i]),
        placed(c, node.from[1], [shared, j, i]),
      ]);
      return productSum(
        "gradient of the head's output · value of the key's token",
        ["i", "∂head", "v"],
        pairs,
      );
    }
    const pairs = [];
    for (let g = 0; g < node.groups; g++) {
      const own = head * node.groups + g;
      if (off(own)) continue;
      for (let r = 0; r < queries; r++)
        pairs.push([
          c.rowLabel(node.name, r),
          placed(c, node.from[0], [own, r, t]),
          arriving(c, node, [own, r, j]),
        ]);
    }
    return productSum(
      "each query's gradient, weighted by its attention to this token",
      ["query", "weight", "∂head"],
      pairs,
    );
  },
  mean(c, node, slot, [t]) {
    const count = c.record.arrays[node.from[0]].shape[1];
    return productSum(
      "through the mean, to which each number contributes 1/d",
      ["", "∂mean", "1/d"],
      [["", arriving(c, node, [t, 0]), { value: 1 / count }]],
    );
  },
  rstd(c, node, slot, [t, j]) {
    if (slot === 1)
      return {
        equation: "The deviations from a mean add up to 0: nothing is sent to the mean.",
        rows: [],
        value: 0,
      };
    const count = c.record.arrays[node.from[0]].shape[1];
    const x =
      placed(c, node.from[0], [t, j]).value - (node.from[1] ? placed(c, node.from[1], [t, 0]).value : 0);
    const rstd = placed(c, node.name, [t, 0]);
    const says = node.from[1]
      ? "through the variance: −(x − mean) / d · (1 / √(variance + ε))³"
      : "through the mean square: −x / d · (1 / √(mean square + ε))³";
    return productSum(
      says,
      ["", `gradient of ${describe(c, node.name)}`, "slope"],
      [["", arriving(c, node, [t, 0]), { value: (-x / count) * rstd.value ** 3 }]],
    );
  },
  normalize(c, node, slot, [t, j]) {
    const rstd = placed(c, node.from[1], [t, 0]);
    if (slot === 0)
      return productSum(
        `multiplied by ${describe(c, rstd.name)}, as x was`,
        ["", "gradient", "factor"],
        [["", arriving(c, node, [t, j]), rstd]],
      );
    const width = c.record.arrays[node.name].shape[1];
    if (slot === 2) {
      const pairs = range(width, i => [`${i}`, arriving(c, node, [t, i]), { value: -rstd.value }]);
      return productSum(
        "the mean was subtracted from each number of the row",
        ["i", "gradient", "−1 / √(variance + ε)"],
        pairs,
      );
    }
    const mean = node.from[2] ? placed(c, node.from[2], [t, 0]).value : 0;
    const pairs = range(width, i => [
      `${i}`,
      arriving(c, node, [t, i]),
      { value: placed(c, node.from[0], [t, i]).value - mean },
    ]);
    return productSum(
      "each number of the row was multiplied by it",
      ["i", "gradient", node.from[2] ? "x − mean" : "x"],
      pairs,
    );
  },
  gate(c, node, slot, index) {
    const [t, k] = index;
    const j = slot === 2 ? k : k - node.first;
    if (j < 0 || j >= c.record.arrays[node.name].shape[1])
      return { equation: "Part of another gate.", rows: [], value: 0 };
    const g = arriving(c, node, [t, j]);
    const y = placed(c, node.name, [t, j]);
    const slope = { value: node.activation === "tanh" ? 1 - y.value ** 2 : y.value * (1 - y.value) };
    const says = `times the slope of ${node.activation === "tanh" ? "tanh, 1 − y²" : "σ, y (1 − y)"}`;
    const factor =
      slot === 2
        ? placed(c, node.from[1], [t, node.first + j])
        : slot === 1 && node.from[2]
          ? placed(c, node.from[2], [t, j])
          : null;
    if (!factor) return productSum(says, ["", "gradient", "slope"], [["", g, slope]]);
    return productSum(
      `${says}, and times ${slot === 2 ? "b, from the state before" : "the reset gate"}`,
      ["", "gradient · slope", "factor"],
      [["", { value: g.value * slope.value }, factor]],
    );
  },
  times(c, node, slot, [t, j]) {
    const later = laterStep(c, node, slot, t);
    if (later === null) return noLaterStep(c);
    const g = arriving(c, node, [later, j]);
    const other = inputAt(c, node, 1 - slot, [later, j]);
    const factor = !node.complement
      ? other
      : slot === 0
        ? { value: -other.value }
        : { value: 1 - other.value };
    const name =
      node.complement && slot === 1
        ? `1 − ${describe(c, node.from[0])}`
        : `${node.complement ? "−" : ""}${describe(c, node.from[1 - slot])}`;
    return productSum(
      `${later === t ? "" : "the next step: "}gradient of ${describe(c, node.name)} · ${name}`,
      ["", "gradient", name],
      [["", g, factor]],
    );
  },
  affine(c, node, slot, [t, j]) {
    return productSum(
      "times the gain",
      ["i", "gradient", "gain"],
      [[`${j}`, arriving(c, node, [t, j]), weightAt(c, node.weight, [j])]],
    );
  },
  activate(c, node, slot, index) {
    const x = placed(c, node.from[0], index);
    const rule = c.model.activation(node.activation);
    const { slope } = ACTIVATION_RULES[node.activation];
    const g = arriving(c, node, index);
    if (!node.from[1])
      return productSum(
        `times the slope: ${slope}`,
        ["", "gradient", `slope at ${brief(x.value)}`],
        [["", g, { value: rule.slope(x.value) }]],
      );
    const gate = placed(c, node.from[1], index);
    const factor = slot === 0 ? rule.slope(x.value) * gate.value : rule.f(x.value);
    return productSum(
      slot === 0 ? `times y, and times the slope: ${slope}` : "times the gate",
      ["", "gradient", "factor"],
      [["", g, { value: factor }]],
    );
  },
};

/** The step that used row t of an input: the next one if it is delayed; null if there is none. */
function laterStep(c, node, slot, t) {
  if (node.delayed !== slot) return t;
  return c.options.memory && t + 1 < c.record.arrays[node.name].shape[0] ? t + 1 : null;
}

function noLaterStep(c) {
  return {
    equation: c.options.memory
      ? "No step comes after this one."
      : "Memory is switched off: no step uses this state.",
    rows: [],
    value: 0,
  };
}

/** How the gradient of one weight came about: each use of it, in each row. */
export function deriveWeightGradient(c, name, index) {
  const parts = [];
  for (const node of c.plan.values()) {
    if (node.weight !== name && node.bias !== name) continue;
    const part = weightPull(c, node, name, index);
    if (part) parts.push({ ...part, to: node.name });
  }
  return { parts, value: parts.reduce((sum, part) => sum + part.value, 0) };
}

function weightPull(c, node, name, index) {
  const array = c.record.arrays[node.name];
  const [a, b] = index;
  if (["position", "distance"].includes(node.kind) && c.options.positions === false)
    return { equation: "Positions are switched off: this number is not used.", rows: [], value: 0 };
  if (node.kind === "distance") {
    const [, queries, keys] = array.shape;
    const places = range(queries * keys, i => [Math.floor(i / keys), i % keys]).filter(
      ([t, u]) => c.model.bucketOf(u - t, node.causal) === a,
    );
    const rows = places.map(([t, u]) => [
      `${c.rowLabel(node.name, t)} → ${c.columnLabel(node.name, u)}`,
      arriving(c, node, [b, t, u]),
    ]);
    return {
      equation: `Added to each score of head ${b + 1} whose key stands at such a distance from its query.`,
      columns: ["query → key", "gradient"],
      rows,
      value: rows.reduce((sum, row) => sum + row[1].value, 0),
    };
  }
  if (node.kind === "weight") return passOn(c, node, [0, index.at(-1)], "The gradient of the vector.");
  if (node.kind === "lookup") {
    const rows = c
      .idsOf(node.side)
      .flatMap((id, t) => (id === a ? [[c.rowLabel(node.name, t), arriving(c, node, [t, b])]] : []));
    return {
      equation: "Each time the token occurs, its row gets the gradient of its vector.",
      columns: ["token", "gradient"],
      rows,
      value: rows.reduce((sum, row) => sum + row[1].value, 0),
    };
  }
  const project = node.kind === "project";
  if (project && (a < node.first || a >= node.first + node.heads * node.width)) return null;
  if (node.kind === "segment") {
    const rows =
      a === 0 ? range(array.shape[0], t => [c.rowLabel(node.name, t), arriving(c, node, [t, b])]) : [];
    return {
      equation: "Added to each token of the segment.",
      columns: ["row", "gradient"],
      rows,
      value: rows.reduce((sum, row) => sum + row[1].value, 0),
    };
  }
  if (!project && !["linear", "affine", "position"].includes(node.kind)) return null;
  const count = project ? array.shape[1] : array.shape[0];
  const place = t =>
    project ? [Math.floor((a - node.first) / node.width), t, (a - node.first) % node.width] : [t, a];
  const rows = range(count, t => [c.rowLabel(node.name, t), arriving(c, node, place(t))]);
  if (node.kind === "position")
    return a < count
      ? {
          equation: "The gradient of the position's vector.",
          columns: ["position", "gradient"],
          rows: [[`${a}`, arriving(c, node, [a, b])]],
          value: arriving(c, node, [a, b]).value,
        }
      : null;
  if (node.bias === name)
    return {
      equation: "Added in each row: the gradients of the rows are added up.",
      columns: ["row", "gradient"],
      rows,
      value: rows.reduce((sum, row) => sum + row[1].value, 0),
    };
  const input = node.kind === "affine" ? t => [t, a] : t => [t, b];
  return productSum(
    "In each row: gradient of the result · input",
    ["row", "gradient", "x"],
    rows.map(([label, g], t) => [label, g, inputAt(c, node, 0, input(t))]),
  );
}
