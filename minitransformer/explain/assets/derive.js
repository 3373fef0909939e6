// How one number came about: the numbers that it was computed from, and what was done with them.
//
// A derivation is { equation, columns, rows, lines, value }: the rows are added up (`columns` names their parts),
// the lines say what happens then. A part of a row is a number with the place that it comes from, so that one can
// go there. Everything is computed again from the record in float64, beside the record's own number.

import { shownToken } from "./elements.js";
import { brief, elementOf } from "./numbers.js";

/** A number of the record, or of its gradients, and its place. */
export function placed(c, name, index, gradient = false) {
  const array = (gradient ? c.gradients().activations : c.record.arrays)[name];
  return { value: elementOf(array, index), name, index, gradient };
}

/** A weight and its place. */
export function weightAt(c, name, index) {
  return { value: elementOf(c.weights[name], index), name, index, weight: true };
}

/** A number of a step's input; of a delayed one, that of the step before, which is 0 at the start. */
export function inputAt(c, node, slot, [t, j]) {
  if (node.delayed !== slot) return placed(c, node.from[slot], [t, j]);
  return t && c.options.memory ? placed(c, node.from[slot], [t - 1, j]) : { value: 0 };
}

/** What is said of a delayed input. */
function delayedNote(c, node, t) {
  if (node.delayed === undefined) return "";
  return !c.options.memory
    ? " Memory is switched off: the state before is 0."
    : t
      ? ""
      : " Before the first step, the state is 0.";
}

/** √(Σ x²). */
export function lengthOf(x) {
  return Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
}

export function isThere(c, name) {
  return Boolean(name) && name in c.weights;
}

/** Σ a·b over `count` pairs. */
export function productSum(equation, columns, pairs, more = []) {
  const rows = pairs.map(([label, a, b]) => [label, a, b, { value: a.value * b.value }]);
  const value =
    rows.reduce((sum, row) => sum + row[3].value, 0) + more.reduce((sum, [, x]) => sum + x.value, 0);
  return { equation, columns: [...columns, "product"], rows, more, value };
}

export function range(count, f) {
  return Array.from({ length: count }, (_, i) => f(i));
}

/** The derivation of one number of the forward pass. */
export function derive(c, name, index) {
  const node = c.plan.get(name);
  return { ...DERIVATIONS[node.kind](c, node, index), node };
}

const DERIVATIONS = {
  lookup(c, node, [t, j]) {
    const id = c.idsOf(node.side)[t];
    const token = c.tokenOf(id);
    const rows = [id - 1, id, id + 1]
      .filter(i => i >= 0 && i < c.weights[node.weight].shape[0])
      .map(i => {
        const entry = weightAt(c, node.weight, [i, j]);
        const hot = { value: i === id ? 1 : 0 };
        return [`${i} ${shownToken(c.tokenOf(i))}`, hot, entry, { value: hot.value * entry.value }];
      });
    return {
      equation: `The one-hot vector of “${shownToken(token)}” is 1 at ${id} and 0 elsewhere, so that the product with the matrix E is row ${id} of E.`,
      columns: ["token", "one-hot", "E", "product"],
      rows,
      value: elementOf(c.weights[node.weight], [id, j]),
      more: [["the other tokens, times 0", { value: 0 }]],
    };
  },
  scale(c, node, index) {
    const x = placed(c, node.from[0], index);
    const { factor, says } = factorOf(c, node);
    return {
      equation: `multiplied by ${says}`,
      columns: ["", "x", "factor", "product"],
      rows: [["", x, { value: factor }, { value: x.value * factor }]],
      value: x.value * factor,
    };
  },
  sinusoid(c, node, [t, j]) {
    const [, width] = c.record.arrays[node.name].shape;
    if (c.options.positions === false)
      return { equation: "Positions are switched off: 0 is added.", value: 0 };
    const { f, pair, scale } = c.model.wave(j, width, node.halves);
    const angle = t / scale;
    const column = positionColumns(node.halves)[f];
    return {
      equation: `PE(pos, ${column}) = ${f}(pos / 10000^(2i/d)), pos = ${t}, 2i = ${2 * pair}, d = ${width}`,
      lines: [
        ["wavelength", `2π · ${brief(scale)} positions`, 2 * Math.PI * scale],
        [`pos / 10000^(${2 * pair}/${width})`, `${t} / ${brief(scale)}`, angle],
        [`${f} of it`, `${f}(${brief(angle)})`, Math[f](angle)],
      ],
      value: Math[f](angle),
    };
  },
  position(c, node, [t, j]) {
    if (c.options.positions === false)
      return { equation: "Positions are switched off: 0 is added.", value: 0 };
    const p = weightAt(c, node.weight, [t, j]);
    return {
      equation: `Row ${t} of the learned position vectors.`,
      columns: ["position", "vector"],
      rows: [[`${t}`, p]],
      value: p.value,
    };
  },
  segment(c, node, [, j]) {
    const p = weightAt(c, node.weight, [0, j]);
    return {
      equation: "The vector of segment 0.",
      columns: ["segment", "vector"],
      rows: [["0", p]],
      value: p.value,
    };
  },
  weight(c, node, index) {
    const p = weightAt(c, node.weight, [0, ...index]);
    return { equation: "A learned vector.", columns: ["", "weight"], rows: [["", p]], value: p.value };
  },
  pixels(c, node, index) {
    return {
      equation: "A pixel of the image, in the patch of this row.",
      value: placed(c, node.name, index).value,
    };
  },
  stack(c, node, [t, j]) {
    const x = t === 0 ? placed(c, node.from[0], [0, j]) : placed(c, node.from[1], [t - 1, j]);
    return {
      equation: t === 0 ? "The class token comes first." : `Patch ${t}.`,
      columns: ["", "x"],
      rows: [["", x]],
      value: x.value,
    };
  },
  distance(c, node, [head, t, u]) {
    if (c.options.positions === false)
      return { equation: "Positions are switched off: 0 is added.", value: 0 };
    const distance = Math.abs(u - t);
    if (!node.weight) {
      const slope = c.model.slopes(c.record.arrays[node.name].shape[0])[head];
      return productSum(
        "Minus the distance of query and key, times the head's slope (ALiBi).",
        ["", "−distance", "slope"],
        [["", { value: -distance }, { value: slope }]],
      );
    }
    const row = c.model.bucketOf(u - t, node.causal);
    const p = weightAt(c, node.weight, [row, head]);
    const place = distance
      ? `${distance} ${u < t ? "before" : "after"} the query`
      : "at the query's own place";
    return {
      equation: `The learned bias of head ${head + 1} for a key ${place}: row ${row} of the biases.`,
      columns: ["row", "bias"],
      rows: [[`${row}`, p]],
      value: p.value,
    };
  },
  add(c, node, index) {
    const rows = node.from.map(name => [describe(c, name), placed(c, name, index)]);
    return {
      equation: "The sum of",
      columns: ["", "number"],
      rows,
      value: rows.reduce((sum, row) => sum + row[1].value, 0),
    };
  },
  join(c, node, [t, j]) {
    const first = c.record.arrays[node.from[0]].shape[1];
    const x = j < first ? placed(c, node.from[0], [t, j]) : placed(c, node.from[1], [t, j - first]);
    return {
      equation: "The vectors of token and position stand side by side.",
      columns: ["", "x"],
      rows: [[describe(c, x.name), x]],
      value: x.value,
    };
  },
  same(c, node, index) {
    const x = placed(c, node.from[0], index);
    return {
      equation: "The same number as",
      columns: ["", "number"],
      rows: [[describe(c, node.from[0]), x]],
      value: x.value,
    };
  },
  average(c, node, [, j]) {
    const [T] = c.record.arrays[node.from[0]].shape;
    const rows = range(T, t => [c.rowLabel(node.from[0], t), placed(c, node.from[0], [t, j])]);
    const sum = rows.reduce((found, [, x]) => found + x.value, 0);
    return {
      equation: `The mean of the states of all ${T} tokens.`,
      columns: ["token", "state"],
      rows,
      lines: [["mean", `${brief(sum)} / ${T}`, sum / T]],
      value: sum / T,
    };
  },
  unit(c, node, [, j]) {
    const x = placed(c, node.from[0], [0, j]);
    const length = lengthOf(c.record.arrays[node.from[0]].data);
    return {
      equation: "The vector is divided by its length, √(Σ x²).",
      columns: ["", "x"],
      rows: [["", x]],
      lines: [["x / length", `${brief(x.value)} / ${brief(length)}`, x.value / length]],
      value: x.value / length,
    };
  },
  first(c, node, [, j]) {
    const x = placed(c, node.from[0], [0, j]);
    return {
      equation: "The first row, of [CLS], stands for the whole input.",
      columns: ["", "number"],
      rows: [["", x]],
      value: x.value,
    };
  },
  project(c, node, [head, t, j]) {
    const row = node.first + head * node.width + j;
    const letter = node.letter.toUpperCase();
    const input = c.record.arrays[node.from[0]];
    const pairs = range(input.shape[1], i => [
      `${i}`,
      placed(c, node.from[0], [t, i]),
      weightAt(c, node.weight, [row, i]),
    ]);
    const more = isThere(c, node.bias) ? [["bias", weightAt(c, node.bias, [row])]] : [];
    return productSum(
      `${letter}[${c.rowLabel(node.name, t)}, ${j}] of head ${head + 1} = row of X · column of W_${letter}${more.length ? " + b" : ""}`,
      ["i", "x", `W_${letter}`],
      pairs,
      more,
    );
  },
  linear(c, node, [t, j]) {
    const input = c.record.arrays[node.from[0]];
    const width = c.weights[node.weight].shape[1];
    const pairs = range(Math.min(input.shape[1], width), i => [
      `${i}`,
      inputAt(c, node, 0, [t, i]),
      weightAt(c, node.weight, [j, i]),
    ]);
    const more = isThere(c, node.bias) ? [["bias", weightAt(c, node.bias, [j])]] : [];
    const of =
      node.delayed === 0 ? `${describe(c, node.from[0])} of the step before` : describe(c, node.from[0]);
    return productSum(
      `row of ${of} · column ${j} of ${matrixLetter(node)}${more.length ? " + b" : ""}${delayedNote(c, node, t)}`,
      ["i", "x", matrixLetter(node)],
      pairs,
      more,
    );
  },
  rotate(c, node, [head, t, j]) {
    const half = c.record.arrays[node.name].shape[2] / 2;
    const i = j % half;
    const angle = rotation(c, node, t, i);
    const a = placed(c, node.from[0], [head, t, i]);
    const b = placed(c, node.from[0], [head, t, i + half]);
    const [ca, cb] = j < half ? [Math.cos(angle), -Math.sin(angle)] : [Math.sin(angle), Math.cos(angle)];
    return productSum(
      `The pair (${i}, ${i + half}) is rotated by ${brief(angle)} radians: ${c.options.positions === false ? "positions are switched off" : `position ${t} times ${brief(c.model.rotaryFrequencies(2 * half)[i])}`}.`,
      ["column", "x", j < half ? "cos, −sin" : "sin, cos"],
      [
        [`${i}`, a, { value: ca }],
        [`${i + half}`, b, { value: cb }],
      ],
    );
  },
  scores(c, node, [head, t, u]) {
    const shared = Math.floor(head / node.groups);
    const width = c.record.arrays[node.from[0]].shape[2];
    const pairs = range(width, i => [
      `${i}`,
      placed(c, node.from[0], [head, t, i]),
      placed(c, node.from[1], [shared, u, i]),
    ]);
    return productSum(
      `query “${c.rowLabel(node.name, t)}” · key “${c.columnLabel(node.name, u)}”`,
      ["i", "q", "k"],
      pairs,
    );
  },
  mask(c, node, [head, t, u]) {
    const x = placed(c, node.from[0], [head, t, u]);
    const rows = [[describe(c, node.from[0]), x]];
    if (node.from[1]) rows.push(["distance bias", placed(c, node.from[1], [head, t, u])]);
    const hidden = node.causal && c.options.causal !== false && u > t;
    const sum = rows.reduce((total, row) => total + row[1].value, 0);
    return {
      equation: hidden
        ? `“${c.columnLabel(node.name, u)}” comes later than “${c.rowLabel(node.name, t)}”: its score becomes −∞, so that its weight is 0.`
        : node.from[1]
          ? "May be seen: the score plus the distance bias."
          : "May be seen: the score stays.",
      columns: ["", "number"],
      rows,
      value: hidden ? -Infinity : sum,
      lines: hidden ? [["hidden", "score + (−∞)", -Infinity]] : [],
    };
  },
  softmax(c, node, index) {
    const row = index.slice(0, -1);
    const array = c.record.arrays[node.from[0]];
    const size = array.shape.at(-1);
    const inputs = range(size, u => placed(c, node.from[0], [...row, u]));
    const largest = Math.max(...inputs.map(x => x.value));
    const powers = inputs.map(x => Math.exp(x.value - largest));
    const total = powers.reduce((sum, x) => sum + x, 0);
    const at = index.at(-1);
    const order = inputs.map((_, u) => u);
    if (size > 40) order.sort((a, b) => powers[b] - powers[a]);
    const shown = order.slice(0, 40);
    if (!shown.includes(at)) shown.push(at);
    return {
      equation: "softmax: e^(x − max), divided by their sum. Each row adds up to 1.",
      columns: ["", "x", "e^(x − max)", "share"],
      rows: shown.map(u => [
        c.columnLabel(node.name, u),
        inputs[u],
        { value: powers[u] },
        { value: powers[u] / total, chosen: u === at },
      ]),
      isShares: true,
      lines: [
        ["max", "", largest],
        [size > shown.length ? `sum of all ${size}` : "sum", "", total],
        ["share", `${brief(powers[at])} / ${brief(total)}`, powers[at] / total],
      ],
      value: powers[at] / total,
    };
  },
  mix(c, node, [head, t, j]) {
    const shared = Math.floor(head / node.groups);
    if ((c.options.ablated?.[node.path] ?? []).includes(head))
      return { equation: "This head is switched off: it gives 0.", value: 0 };
    const count = c.record.arrays[node.from[0]].shape[2];
    const pairs = range(count, u => [
      c.columnLabel(node.from[0], u),
      placed(c, node.from[0], [head, t, u]),
      placed(c, node.from[1], [shared, u, j]),
    ]);
    return productSum("Each value, weighted by the attention to its token", ["token", "weight", "v"], pairs);
  },
  concat(c, node, [t, j]) {
    const width = c.record.arrays[node.from[0]].shape[2];
    const x = placed(c, node.from[0], [Math.floor(j / width), t, j % width]);
    return {
      equation: `The heads side by side: column ${j} is column ${j % width} of head ${Math.floor(j / width) + 1}.`,
      columns: ["", "number"],
      rows: [["", x]],
      value: x.value,
    };
  },
  mean(c, node, [t]) {
    const count = c.record.arrays[node.from[0]].shape[1];
    const rows = range(count, i => [`${i}`, placed(c, node.from[0], [t, i])]);
    const sum = rows.reduce((total, row) => total + row[1].value, 0);
    return {
      equation: "The mean of the row.",
      columns: ["i", "x"],
      rows,
      lines: [["sum / d", `${brief(sum)} / ${count}`, sum / count]],
      value: sum / count,
    };
  },
  rstd(c, node, [t]) {
    const count = c.record.arrays[node.from[0]].shape[1];
    const mean = node.from[1] ? placed(c, node.from[1], [t, 0]).value : 0;
    const rows = range(count, i => {
      const x = placed(c, node.from[0], [t, i]);
      return [`${i}`, x, { value: (x.value - mean) ** 2 }];
    });
    const variance = rows.reduce((total, row) => total + row[2].value, 0) / count;
    const { eps } = c;
    return {
      equation: describe(c, node.name),
      columns: ["i", "x", node.from[1] ? "(x − mean)²" : "x²"],
      rows,
      lines: [
        [node.from[1] ? "variance" : "mean square", "sum / d", variance],
        [describe(c, node.name), `ε = ${eps}`, 1 / Math.sqrt(variance + eps)],
      ],
      value: 1 / Math.sqrt(variance + eps),
    };
  },
  normalize(c, node, [t, j]) {
    const x = placed(c, node.from[0], [t, j]);
    const rstd = placed(c, node.from[1], [t, 0]);
    const mean = node.from[2] ? placed(c, node.from[2], [t, 0]) : null;
    const value = (x.value - (mean?.value ?? 0)) * rstd.value;
    return {
      equation: mean ? "(x − mean) / √(variance + ε)" : "x / √(mean square + ε)",
      columns: ["", "number"],
      rows: [["x", x], ...(mean ? [["mean", mean]] : []), [describe(c, rstd.name), rstd]],
      lines: [
        [
          "result",
          `${mean ? `(${brief(x.value)} − ${brief(mean.value)})` : brief(x.value)} · ${brief(rstd.value)}`,
          value,
        ],
      ],
      value,
      noSum: true,
    };
  },
  gate(c, node, [t, j]) {
    const parts = range(2, slot => placed(c, node.from[slot], [t, node.first + j]));
    const reset = node.from[2] ? placed(c, node.from[2], [t, j]) : { value: 1 };
    const sum = parts[0].value + reset.value * parts[1].value;
    const value = c.model.activation(node.activation).f(sum);
    const sumOf = `${brief(parts[0].value)} + ${node.from[2] ? `${brief(reset.value)} · ` : ""}${brief(parts[1].value)}`;
    return {
      equation: node.from[2] ? "tanh(a + r · b)" : `${node.activation === "tanh" ? "tanh" : "σ"}(a + b)`,
      columns: ["", "number"],
      rows: [
        ["a, from the input", parts[0]],
        ["b, from the state before", parts[1]],
        ...(node.from[2] ? [["r, the reset gate", reset]] : []),
      ],
      lines: [
        ["sum", sumOf, sum],
        ["result", ACTIVATION_RULES[node.activation].says, value],
      ],
      value,
      noSum: true,
    };
  },
  times(c, node, [t, j]) {
    const [a, b] = [inputAt(c, node, 0, [t, j]), inputAt(c, node, 1, [t, j])];
    const factor = node.complement ? { value: 1 - a.value } : a;
    const names = [
      node.complement ? `1 − ${describe(c, node.from[0])}` : describe(c, node.from[0]),
      node.delayed === 1 ? `${describe(c, node.from[1])} before` : describe(c, node.from[1]),
    ];
    return productSum(
      `${names[0]} · ${names[1]}.${delayedNote(c, node, t)}`,
      ["", ...names],
      [["", factor, b]],
    );
  },
  affine(c, node, [t, j]) {
    const x = placed(c, node.from[0], [t, j]);
    const gain = weightAt(c, node.weight, [j]);
    const more = isThere(c, node.bias) ? [["bias", weightAt(c, node.bias, [j])]] : [];
    return productSum(
      more.length ? "gain · x + bias, both learned" : "gain · x, the gain is learned",
      ["i", "x", "gain"],
      [[`${j}`, x, gain]],
      more,
    );
  },
  activate(c, node, index) {
    const x = placed(c, node.from[0], index);
    const { says } = ACTIVATION_RULES[node.activation];
    const value = c.model.activation(node.activation).f(x.value);
    if (!node.from[1])
      return {
        equation: says,
        columns: ["", "x"],
        rows: [["x", x]],
        lines: [["result", `f(${brief(x.value)})`, value]],
        value,
        noSum: true,
      };
    const gate = placed(c, node.from[1], index);
    return {
      equation: `The gate, ${says}, times y`,
      columns: ["", "number"],
      rows: [
        ["x = x W₁", x],
        ["y = x W₃", gate],
      ],
      lines: [
        ["gate", "", value],
        ["gate · y", `${brief(value)} · ${brief(gate.value)}`, value * gate.value],
      ],
      value: value * gate.value,
      noSum: true,
    };
  },
};

/** The columns of the sines and cosines of pair i. */
export function positionColumns(halves) {
  return halves ? { sin: "i", cos: "d/2+i" } : { sin: "2i", cos: "2i+1" };
}

/** What a step multiplies by, which may be switched off. */
export function factorOf(c, node) {
  return node.switch && c.options[node.switch] === false
    ? { factor: 1, says: "1: scaling is switched off" }
    : node;
}

/** The angle of pair i at position t. */
export function rotation(c, node, t, i) {
  const width = c.record.arrays[node.name].shape[2];
  return c.options.positions === false ? 0 : t * c.model.rotaryFrequencies(width)[i];
}

/** The formulas of the activations and of their slopes, which the model computes. */
export const ACTIVATION_RULES = {
  relu: { says: "relu(x) = max(0, x)", slope: "1 where x > 0, else 0" },
  sigmoid: { says: "σ(x) = 1 / (1 + e^(−x))", slope: "σ(x)·(1 − σ(x))" },
  tanh: { says: "tanh(x)", slope: "1 − tanh²(x)" },
  silu: { says: "silu(x) = x · σ(x)", slope: "σ(x)·(1 + x·(1 − σ(x)))" },
  gelu: { says: "gelu(x) = x · Φ(x)", slope: "Φ(x) + x·φ(x)" },
  gelu_tanh: {
    says: "gelu(x) = x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))",
    slope: "the derivative of this gelu",
  },
};

/** What an array is called in a sentence. */
export function describe(e, name) {
  const part = name.split(".").at(-1);
  const isCentred = e.plan.get(name)?.from.length > 1; // a layer norm's, not an RMSNorm's
  const isGated = part === "linear1" && e.plan.has(name.replace("linear1", "linear3"));
  const where = /norm\./.test(name)
    ? "normalized row"
    : name.includes("self_attention") || name.includes("cross_attention")
      ? "attention output"
      : name.includes("feed_forward")
        ? "feed-forward output"
        : name;
  const names = {
    embedded: name.startsWith("encoder") && e.isImage ? "patch vector" : "token vector",
    scaled: name.includes("attention")
      ? "scaled score"
      : name.startsWith("head")
        ? "last state times 1/√d"
        : "vector times √d",
    positions: "position vector",
    input: "input of the layers",
    sum: "residual sum",
    output: where,
    hidden: "hidden layer",
    concat: "heads side by side",
    segments: "segment vector",
    normalized: "normalized row",
    mean: "mean",
    rstd: isCentred ? "1 / √(variance + ε)" : "1 / √(mean square + ε)",
    linear1: isGated ? "gate before its activation" : "first layer",
    linear3: "what the gate multiplies",
    scores: "score",
    masked: "masked score",
    weights: "attention weight",
    heads: "weighted sum of the values",
    q: "query",
    k: "key",
    v: "value",
    q_unrotated: "query before the rotation",
    k_unrotated: "key before the rotation",
    logits: "logit",
    probabilities: "probability",
    first: "first state",
    average: "mean of the states",
    unit: "sentence vector",
    pooled: "pooled state",
    tokens: "token vector",
    class: "class token",
    from_input: "part of the gates from the input",
    from_state: "part of the gates from the state before",
    input_gate: "input gate i",
    forget_gate: "forget gate f",
    output_gate: "output gate o",
    candidate: "candidate",
    reset_gate: "reset gate r",
    update_gate: "update gate z",
    kept: "what is kept",
    added: "what is added",
    cell: "cell",
    cell_tanh: "tanh of the cell",
    patches: "pixels",
    bias: "distance bias",
    embedding_sum: "sum of the vectors",
    linear: "linear layer",
  };
  if (/^layers\.\d+\.hidden$/.test(name)) return "state h";
  if (name === "encoder.output") return "encoder's output";
  if (name === "decoder.output" || name === "layers.output") return "last state";
  return names[part] ?? part;
}

export function matrixLetter(node) {
  if (node.name === "logits") return node.weight.includes("embedding") ? "E" : "W";
  if (node.weight.startsWith("rnn.")) return node.delayed === 0 ? "W_hh" : "W_ih";
  if (node.weight.includes("out_proj")) return "W_O";
  if (node.weight.includes("linear1")) return "W_1";
  if (node.weight.includes("linear2")) return "W_2";
  if (node.weight.includes("linear3")) return "W_3";
  return "W";
}
