// Stages on the order of the words: vectors that are added, rotations, biases; and the norm that may follow.

import { h, s } from "../../../minigrad/graph/assets/dom.js";
import { attentionChoice, currentRow, lettersChoice, partOf, sharedHead } from "./attention.js";
import { describe, positionColumns, range } from "./derive.js";
import { hint, unitOf, unitsOf } from "./elements.js";
import { equation } from "./equation.js";
import { normEquation, norms, tips } from "./layers.js";
import { columnStrip, matrix, plainTable } from "./matrix.js";
import { brief, inTable } from "./numbers.js";
import { choice, slider } from "./pictures.js";
import { dotProduct } from "./words.js";

/** What the input of a stack's layers is made of: vectors that are added or stand side by side, and a norm. */
export function inputSum(e, stack, current = null) {
  const name = part => `${stack.name}.${part}`;
  const input = { title: "input of the first layer", letter: "X", current };
  const { name: sum, kind, from } = e.plan.get(name(stack.embeddingNorm ? "embedding_sum" : "input"));
  if (kind === "same")
    return matrix(e, sum, { ...input, title: `${unitOf(e)} vectors, the input of the first layer` });
  const titles = {
    embedded: `${unitOf(e)} vectors`,
    scaled: `${unitOf(e)} vectors times √d`,
    tokens: "class token and patch vectors",
    segments: "segment vectors",
    positions: "position vectors",
  };
  return [
    from.map((part, i) => [
      i ? sign(kind === "join" ? "beside" : "+") : null,
      matrix(e, part, { title: titles[part.split(".").at(-1)], current }),
    ]),
    sign("="),
    matrix(e, sum, stack.embeddingNorm ? { title: "sum of the vectors", current } : input),
    stack.embeddingNorm
      ? [sign(h("a", { href: "#input-norm" }, "normalized"), " ="), matrix(e, name("input"), input)]
      : null,
  ];
}

/** What the input of a stack's layers is made of, in one row. */
export function sumEquation(e, stack) {
  const name = part => `${stack.name}.${part}`;
  const row = `token:${e.sideOfRows(name("input"))}`;
  const { name: sum, kind, from } = e.plan.get(name(stack.embeddingNorm ? "embedding_sum" : "input"));
  if (kind === "same")
    return equation(e, [{ name: sum, letter: "X", title: `${unitOf(e)} vectors`, axes: [row, "width"] }]);
  return equation(e, [
    from.map((part, i) => [
      i ? (kind === "join" ? "beside" : "+") : null,
      {
        name: part,
        title: `${describe(e, part)}s`.replace("√ds", "√d"),
        axes: [row, kind === "join" ? `part ${i}` : "width"],
      },
    ]),
    "=",
    {
      name: sum,
      letter: stack.embeddingNorm ? null : "X",
      title: stack.embeddingNorm ? "sum" : "input of the first layer",
      axes: [row, "width"],
    },
    stack.embeddingNorm
      ? [
          "norm",
          { name: name("input"), letter: "X", title: "input of the first layer", axes: [row, "width"] },
        ]
      : null,
  ]);
}

export function sign(...content) {
  return h("p", { class: "sign" }, ...content);
}

export function segmentsScreen(e) {
  const { shape } = e.weights["token_types.weight"];
  return {
    thought:
      "BERT can read two texts at once, such as a question and an answer. A learned vector tells which of them a token belongs to. This page reads one text: every token gets the vector of segment 0.",
    body: [
      equation(e, [
        {
          name: "token_types.weight",
          weight: true,
          title: "learned",
          rows: range(shape[0], i => `segment ${i}`),
          axes: ["segment:all", "width"],
        },
        "row 0 =",
        { name: "encoder.segments", title: "segment vectors", axes: ["token:source", "width"] },
      ]),
    ],
    beside: tips(e),
    below: () => [
      matrix(e, "token_types.weight", {
        weight: true,
        title: "learned segment vectors",
        rows: range(shape[0], i => `segment ${i}`),
      }),
      sign("row 0 for each token ="),
      matrix(e, "encoder.segments", { title: "segment vectors" }),
    ],
  };
}

/** How the model knows the order: vectors that are added, rotated queries and keys, or biases of the scores. */
export function positionsScreen(e) {
  const stack = e.structure.stacks[0];
  const { thought, body, ...more } = stack.rotary
    ? rotations(e)
    : stack.bias
      ? distances(e)
      : positionVectorsScreen(e, stack);
  const off = h(
    "p",
    { class: "note" },
    e.isImage
      ? "Positions are switched off: the model does not know where in the image a patch was."
      : "Positions are switched off: the model cannot tell “dog bites man” from “man bites dog”, except by what a causal mask hides.",
  );
  return {
    thought: `Attention alone does not know the order of the ${unitsOf(e)}. ${thought}`,
    body: [e.options.positions ? null : off, body],
    ...more,
  };
}

function positionVectorsScreen(e, stack) {
  const learned = stack.positions === "learned";
  const columns = positionColumns(stack.halves);
  const added = stack.concatenate
    ? `which stands beside the vector of the ${unitOf(e)}`
    : `which is added to the vector of the ${unitOf(e)}`;
  return {
    thought: learned
      ? `So each position has a learned vector, ${added}.`
      : `So each position has a pattern of sines and cosines, ${added}.`,
    body: [
      learned
        ? null
        : h(
            "p",
            { class: "formula" },
            `PE(pos, ${columns.sin}) = sin(pos / 10000`,
            h("sup", "2i/d"),
            `),  PE(pos, ${columns.cos}) = cos(pos / 10000`,
            h("sup", "2i/d"),
            ")",
          ),
      sumEquation(e, stack),
    ],
    beside: learned ? tips(e) : waves(e, stack),
    below: () => inputSum(e, stack),
  };
}

/** RoPE (Su et al. 2021): queries and keys of self-attention are rotated. */
function rotations(e) {
  const cross = e.path.includes("cross");
  const letter = e.letter === "k" ? "k" : "q";
  const head = letter === "q" ? e.head : sharedHead(e);
  const { rotary: theta, headWidth } = e.stackOf(e.path);
  const half = headWidth / 2;
  const frequencies = e.model.rotaryFrequencies(headWidth);
  const { rope_type, rope_factor } = e.data.config;
  const slowed = {
    linear: `For longer texts, all pairs turn ${rope_factor} times slower.`,
    llama3: `For longer texts, pairs that turn slowly turn up to ${rope_factor} times slower still.`,
  }[rope_type];
  const words = { q: "queries", k: "keys" };
  const rows = e.tokensOf(e.sideOfRows(partOf(e, "q")));
  return {
    thought:
      "So each query and each key is rotated by angles that grow with its position (RoPE). The dot product of the two then depends on how far apart they are, not on where they stand.",
    body: [
      attentionChoice(e),
      cross
        ? h(
            "p",
            { class: "note" },
            "Cross-attention does not rotate: its queries and keys stand in two different texts. Choose a self-attention.",
          )
        : [
            lettersChoice(e, ["q", "k"], letter),
            h(
              "p",
              { class: "formula" },
              "(a, b) → (a cos α − b sin α, b cos α + a sin α),  α = position · ",
              `${theta.toLocaleString("en")}`,
              h("sup", "−2i/d"),
              `,  d = ${headWidth}`,
            ),
            slowed ? hint(slowed) : null,
            matrix(e, partOf(e, `${letter}_unrotated`), {
              title: `${words[letter]} before the rotation`,
              head,
            }),
            sign(e.options.positions ? `rotated: column i is a, column i + ${half} is b =` : "not rotated ="),
            matrix(e, partOf(e, letter), { title: words[letter], letter: letter.toUpperCase(), head }),
            h(
              "figure",
              h(
                "figcaption",
                "The angles α, in radians: a row for each position, a column for each pair (i, i + d/2)",
              ),
              plainTable(e, {
                title: "Angles",
                rows,
                columns: range(half, i => `${i}, ${i + half}`),
                value: (t, i) => (e.options.positions ? t * frequencies[i] : 0),
                text: x => inTable(x, 2),
                look: { largest: Math.max(1, rows.length - 1) },
              }),
            ),
          ],
    ],
  };
}

/** T5's learned biases, or ALiBi's slopes. */
function distances(e) {
  const cross = e.path.includes("cross");
  const node = e.plan.get(partOf(e, "bias"));
  const { heads } = e.stackOf(e.path);
  const isLearned = e.structure.stacks[0].bias === "t5";
  return {
    thought: isLearned
      ? "So each head adds a learned number to each score: its bias for the distance from the query to the key. All layers of a stack share these numbers."
      : "So each head subtracts the distance from the query to the key, times the head's slope, from each score (ALiBi): the steeper the slope, the nearer the head looks.",
    body: [
      attentionChoice(e),
      cross
        ? h(
            "p",
            { class: "note" },
            "Cross-attention adds no bias: its queries and keys stand in two different texts. Choose a self-attention.",
          )
        : [
            matrix(e, node.name, {
              title: isLearned
                ? "bias of each score"
                : `minus the distance, times the slope ${brief(e.model.slopes(heads)[e.head])}`,
              head: e.head,
              current: currentRow(e),
            }),
            isLearned
              ? matrix(e, node.weight, {
                  weight: true,
                  title: "learned biases: a row for each bucket of distances, a column for each head",
                  rows: bucketLabels(e, node),
                  columns: range(heads, i => `head ${i + 1}`),
                })
              : null,
            isLearned
              ? hint(
                  "“3 before”: the key stands 3 places before the query. Short distances have a number each; longer ones share one.",
                )
              : null,
            h(
              "p",
              "Where the bias is added: ",
              h("a", { href: `#mask:${e.path}` }, "before the softmax"),
              ".",
            ),
          ],
    ],
  };
}

/** Which distances share a row of T5's biases. */
function bucketLabels(e, node) {
  const count = e.weights[node.weight].shape[0];
  const most = 2 * e.data.config.relative_attention_max_distance;
  const found = range(count, () => []);
  for (let length = 0; length <= most; length++)
    for (const distance of [-length, length]) found[e.model.bucketOf(distance, node.causal)].push(distance);
  return found.map(all => {
    if (!all.length) return "unused";
    if (all.includes(0)) return all.some(distance => distance > 0) ? "0 or after" : "0";
    const lengths = all.map(Math.abs);
    const [first, last] = [Math.min(...lengths), Math.max(...lengths)];
    return `${first === last ? first : last === most ? `${first} or more` : `${first} to ${last}`} ${all[0] < 0 ? "before" : "after"}`;
  });
}

export function inputNormScreen(e) {
  const stack = stackChoice(e);
  return {
    thought: `Before the first layer, ${normSays(stack)}`,
    choices: stack.choice,
    body: normEquation(e, stack, `${stack.name}.embedding_norm`),
    beside: tips(e),
    below: () => [
      matrix(e, `${stack.name}.embedding_sum`, { title: "sum of the vectors" }),
      norms(e, stack, `${stack.name}.embedding_norm`),
    ],
  };
}

export function finalNormScreen(e) {
  const stack = stackChoice(e);
  const [x] = e.plan.get(`${stack.name}.norm.normalized`).from;
  const reader = e.isPair && stack.name === "encoder" ? "the decoder" : "the output layer";
  return {
    thought: `In this model each sub-layer normalizes only its own copy of x, never x itself. So before ${reader} reads x, ${normSays(stack)}`,
    choices: stack.choice,
    body: normEquation(e, stack, `${stack.name}.norm`),
    beside: tips(e),
    below: () => [matrix(e, x, { title: "x after the last layer" }), norms(e, stack, `${stack.name}.norm`)],
  };
}

function normSays({ norm }) {
  return norm.kind === "layer"
    ? `layer norm shifts each row to mean 0 and scales it to variance 1; then each column is multiplied by a learned gain${norm.bias ? ", and a learned bias is added" : ""}.`
    : "RMSNorm divides each row by the root of its mean square; then each column is multiplied by a learned gain.";
}

/** A stack, and the control that chooses it. */
function stackChoice(e) {
  const { stacks } = e.structure;
  const stack = stacks.find(each => each.name === e.normStack) ?? stacks.at(-1);
  const control =
    stacks.length > 1
      ? h(
          "div",
          { class: "choices" },
          choice(
            "Stack",
            stacks.map(each => [each.name, each.name]),
            stack.name,
            name => e.set({ normStack: name }),
          ),
        )
      : null;
  return { ...stack, choice: control };
}

const POSITIONS = 100;

/** Sines and cosines over many positions, computed here: no model is needed. */
function waves(e, stack) {
  const width = e.record.arrays[`${stack.name}.positions`].shape[1];
  const all = range(width, j => e.model.wave(j, width, stack.halves));
  const rows = range(POSITIONS, pos => all.map(({ f, scale }) => Math[f](pos / scale)));
  const pair = Math.min(e.wave, Math.floor(width / 2) - 1);
  const columns = [...all.keys()].filter(j => all[j].pair === pair);
  const array = { shape: [POSITIONS, width], data: rows.flat() };
  const strip = { array, rows: POSITIONS, columns: width, at: (t, j) => [t, j], largest: 1 };
  return [
    h("h3", "Each pair of columns is a wave"),
    hint(
      "The first pair changes quickly from position to position, the last very slowly: like the last and the first digit of a number that counts up.",
    ),
    h("p", { class: "label" }, `${POSITIONS} positions (down) × ${width} columns`),
    columnStrip(strip, columns[0], stack.halves ? 1 : 2, `${POSITIONS} positions`),
    slider("Columns", {
      min: 0,
      max: Math.floor(width / 2) - 1,
      step: 1,
      value: pair,
      text: `${columns.join(", ")}: wavelength ${brief(2 * Math.PI * all[columns[0]].scale)}`,
      oninput: wave => e.set({ wave }),
    }),
    curves(
      "Sine and cosine of this pair over the positions",
      columns.map(j => rows.map(row => row[j])),
    ),
    h("h3", "How alike two positions are"),
    hint(
      "The dot product of position 0 with each other one. Of any two it depends on the distance alone, since PE(pos + k) is PE(pos) with each pair rotated.",
    ),
    curves("Dot product of position 0 with each position", [rows.map(row => dotProduct(row, rows[0]))]),
  ];
}

/** Numbers over the positions as lines; the second one is dashed. */
function curves(label, all) {
  const [low, high] = [Math.min(...all.flat()), Math.max(...all.flat())];
  const point = (x, i) =>
    `${((400 * i) / (POSITIONS - 1)).toFixed(1)} ${(112 - (100 * (x - low)) / (high - low || 1)).toFixed(1)}`;
  return s(
    "svg",
    { class: "waves", viewBox: "0 0 400 120", role: "img", "aria-label": label },
    all.map(values => s("path", { d: `M${values.map(point).join("L")}` })),
    s("text", { x: 4, y: 14 }, brief(high)),
    s("text", { x: 4, y: 116 }, brief(low)),
  );
}
