// Stages inside an attention: the same for self-attention and cross-attention of each layer.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { keepAddress } from "./address.js";
import { headClass } from "./colours.js";
import { isThere, range } from "./derive.js";
import { hint, scrolling, symbol, titleOfPath, titleOfRows, unitOf, unitsOf, withRoles } from "./elements.js";
import { ONE_ROW, equation, heightForEquations } from "./equation.js";
import { pictured } from "./image.js";
import { matrix, plainTable } from "./matrix.js";
import { elementOf, inTable, percent } from "./numbers.js";
import {
  attentionPicture,
  bars,
  brightnessOf,
  choice,
  headButtons,
  heatPicture,
  shares,
  wordRow,
} from "./pictures.js";
import { sign } from "./positions.js";
import { attentionPathsHere, isOff, largestIndices } from "./state.js";
import { biasOf } from "./words.js";

/** Which attention, and which head of it. */
export function attentionChoice(e, withHead = true) {
  const { heads } = e.stackOf(e.path);
  const address = e.screen;
  return h(
    "div",
    { class: "choices" },
    choice(
      "Attention",
      attentionPathsHere(e).map(path => [path, titleOfPath(path)]),
      e.path,
      path => e.go(`${address}:${path}`),
    ),
    withHead && heads > 1
      ? headButtons(
          heads,
          e.head,
          i => isOff(e, e.path, i),
          head => e.set({ head }),
        )
      : null,
  );
}

export function partOf(e, part) {
  return `${e.path}.${part}`;
}

/** The axes of an attention: its queries and its keys are tokens. */
function axesOf(e) {
  const side = e.sideOfRows(partOf(e, "q"));
  return { query: `token:${side}`, key: `key:${e.path.includes("cross") ? "source" : side}` };
}

/** A row of a decoder has two names: the last token that was read, and the one that it writes. */
function twoNames(e, t) {
  const [read, written] = [e.tokensOf(e.isPair ? "target" : "source")[t], e.labelShown(t)];
  if (e.screen === "alignment")
    return `The row that writes “${written}” is the one after reading “${read}”: the stages inside of attention call it “${read}”.`;
  return [
    `Rows are named by the last ${unitOf(e)} that was read: the one after “${read}” writes “${written}”`,
    e.isPair ? [", as which it stands in ", h("a", { href: "#alignment" }, "Alignment")] : null,
    ".",
  ];
}

/** What the head attends to, in words: at the side of the stages inside of an attention. */
function wordsBeside(e) {
  const name = partOf(e, "weights");
  const sides = Object.values(axesOf(e)).map(axis => axis.split(":")[1]);
  return [
    h(
      "h3",
      "What ",
      h("span", { class: headClass(e.head) }, `head ${e.head + 1}`),
      ` attends to${isOff(e, e.path, e.head) ? " (off: it gives 0)" : ""}`,
    ),
    attentionPicture(
      e,
      e.record.arrays[name],
      e.head,
      sides.map(side => e.tokensOf(side)),
      sides,
      brightnessOf(e, e.path, e.head),
    ),
    hint(
      `The stronger, the larger the weight. Point at a ${unitOf(e)} to see its attention alone. `,
      titleOfRows(e, axesOf(e).query)
        ? twoNames(e, Math.min(e.query ?? e.step, e.labels().length - 1))
        : null,
    ),
  ];
}

/** The head of keys and values that a head of queries uses. */
export function sharedHead(e) {
  const { heads, kvHeads } = e.stackOf(e.path);
  return Math.floor(e.head / (heads / kvHeads));
}

/** The row of the chosen prediction, in an attention of the stack that predicts. */
export function currentRow(e) {
  return e.path.startsWith(e.structure.stacks.at(-1).name) ? e.step : null;
}

export function qkvScreen(e) {
  const letter = e.letter ?? "q";
  const capital = letter.toUpperCase();
  const node = e.plan.get(partOf(e, `${letter}_unrotated`)) ?? e.plan.get(partOf(e, letter));
  const isRotated = node.name !== partOf(e, letter);
  const head = letter === "q" ? e.head : sharedHead(e);
  const unit = unitOf(e);
  const meaning = {
    q: `A query says what a ${unit} looks for.`,
    k: `A key says what a ${unit} has to offer; queries are compared with it.`,
    v: `A value is what a ${unit} gives to those that attend to it.`,
  };
  const name = { q: "queries", k: "keys", v: "values" }[letter];
  const current = letter === "q" ? currentRow(e) : null;
  const cross = e.path.includes("cross");
  const stack = e.stackOf(e.path);
  const firstRow = node.first + head * stack.headWidth;
  const rowAxis = letter === "q" ? axesOf(e).query : axesOf(e).key.replace("key", "token");
  return {
    thought: `Each ${unit}'s vector is multiplied by three learned matrices: they give its query, its key and its value. ${meaning[letter]}`,
    choices: attentionChoice(e),
    body: [
      lettersChoice(e, ["q", "k", "v"], letter),
      cross
        ? hint(
            letter === "q"
              ? `Queries come from the decoder: the ${unitsOf(e)} written so far.`
              : "Keys and values come from the encoder: the text that is read.",
          )
        : null,
      equation(
        e,
        [
          {
            name: node.from[0],
            title: cross && letter !== "q" ? "the encoder's output" : "input",
            letter: "X",
            axes: [rowAxis, "width"],
          },
          "·",
          {
            name: node.weight,
            weight: true,
            transposed: true,
            rowRange: [firstRow, stack.headWidth],
            title: `of head ${head + 1}`,
            letter: `W_${capital}`,
            axes: ["width", "head"],
          },
          isThere(e, node.bias) ? "+ b =" : "=",
          {
            name: node.name,
            head,
            title: isRotated ? "before the rotation" : name,
            letter: isRotated ? null : capital,
            axes: [rowAxis, "head"],
          },
          isRotated
            ? [
                e.options.positions ? "rotated" : "=",
                { name: partOf(e, letter), head, title: name, letter: capital, axes: [rowAxis, "head"] },
              ]
            : null,
        ],
        heightForEquations(e, 95),
      ),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, node.from[0], {
        title: cross && letter !== "q" ? "the encoder's output" : "input of this layer",
        letter: "X",
      }),
      sign("times ", symbol(`W_${capital}`), " of this head", biasOf(e, node.bias), " ="),
      isRotated
        ? [
            matrix(e, node.name, { title: `${name} before the rotation`, head, current }),
            sign(
              e.options.positions
                ? [
                    h("a", { href: `#positions:${e.path}` }, "rotated"),
                    " by angles that grow with the position =",
                  ]
                : "not rotated, since positions are switched off =",
            ),
          ]
        : null,
      matrix(e, partOf(e, letter), { title: name, letter: capital, head, current }),
      h(
        "details",
        {
          open: e.openWeights,
          ontoggle: event => {
            e.openWeights = event.target.open;
            keepAddress(e);
          },
        },
        h(
          "summary",
          { "data-key": "weights" },
          "The matrix ",
          symbol(`W_${capital}`),
          ` of head ${head + 1} (${stack.width} × ${stack.headWidth}), column by column`,
        ),
        matrix(e, node.weight, {
          weight: true,
          title: "each row of this table is a column of the matrix",
          rowRange: [firstRow, stack.headWidth],
          rows: range(stack.headWidth, i => `${i}`),
        }),
      ),
    ],
  };
}

export function lettersChoice(e, letters, letter) {
  return h(
    "div",
    { class: "together", role: "group", "aria-label": "Query, key or value" },
    letters.map(each =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": each === letter ? "true" : "false",
          "data-key": `letter:${each}`,
          onclick: () => e.set({ letter: each }),
        },
        symbol(each.toUpperCase()),
      ),
    ),
  );
}

/** Rows of Q and columns of K that the scores are made of. */
export function scoresScreen(e) {
  const { query, key } = axesOf(e);
  return {
    thought:
      "Each query is compared with each key: their dot product is the score. The larger a score beside the others of its row, the more the query attends to that key.",
    choices: attentionChoice(e),
    body: [
      equation(e, [
        { name: partOf(e, "q"), head: e.head, letter: "Q", title: "queries", axes: [query, "width"] },
        "·",
        {
          name: partOf(e, "k"),
          head: sharedHead(e),
          letter: "K",
          title: "keys",
          transposed: true,
          axes: ["width", key],
        },
        "=",
        { name: partOf(e, "scores"), head: e.head, letter: "S", title: "scores", axes: [query, key] },
      ]),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "q"), { title: "queries", letter: "Q", head: e.head, current: currentRow(e) }),
      matrix(e, partOf(e, "k"), { title: "keys", letter: "K", head: sharedHead(e) }),
      h("p", { class: "sign" }, "="),
      matrix(e, partOf(e, "scores"), {
        title: "scores: queries down, keys across",
        head: e.head,
        current: currentRow(e),
      }),
    ],
  };
}

export function scaleScreen(e) {
  const { headWidth } = e.stackOf(e.path);
  const root = Number(Math.sqrt(headWidth).toPrecision(6));
  const unscaled = isUnscaled(e);
  const scores = e.record.arrays[partOf(e, "scores")];
  const row = Math.max(0, currentRow(e) ?? 0);
  const values = range(scores.shape[2], u =>
    elementOf(scores, [e.head, Math.min(row, scores.shape[1] - 1), u]),
  );
  const keys = values.map((_, u) => e.columnLabel(partOf(e, "scores"), u));
  const without = [
    unscaled ? "as this model does, without scaling" : "without scaling",
    e.model.distribution(values),
  ];
  const shares = unscaled
    ? [without]
    : [without, ["with scaling", e.model.distribution(values.map(x => x * headWidth ** -0.5))]];
  const shown = largestIndices(shares.at(-1)[1], 6).sort((a, b) => a - b);
  const { query, key } = axesOf(e);
  return {
    thought: unscaled
      ? [
          "This model does not divide its scores by √",
          symbol("d_k"),
          ". T5 makes up for it with smaller initial weights.",
        ]
      : [
          "If the components of q and k are independent with mean 0 and variance 1, their dot product has mean 0 and variance ",
          symbol("d_k"),
          ` = ${headWidth} (footnote 4 of the paper). Divided by √${headWidth} = ${root}, it has variance 1 again, and softmax stays soft.`,
        ],
    choices: attentionChoice(e),
    body: [
      equation(
        e,
        [
          { name: partOf(e, "scores"), head: e.head, letter: "S", title: "scores", axes: [query, key] },
          unscaled
            ? "="
            : e.options.scale
              ? h("span", { class: "formula" }, "/ √", h("var", "d"), h("sub", "k"), " =")
              : "=",
          {
            name: partOf(e, "scaled"),
            head: e.head,
            title: unscaled ? "unchanged" : e.options.scale ? "scaled scores" : "not divided: scaling is off",
            axes: [query, key],
          },
        ],
        heightForEquations(e) - 100,
      ),
      h(
        "section",
        h(
          "h3",
          `What “${e.rowLabel(partOf(e, "scores"), Math.min(row, scores.shape[1] - 1))}” would attend to`,
        ),
        h(
          "div",
          { class: "pair" },
          shares.map(([name, p]) =>
            h(
              "div",
              h("h4", name),
              bars(
                shown.map(u => [keys[u], p[u], percent(p[u])]),
                name,
              ),
            ),
          ),
        ),
        hint(
          `${shown.length < keys.length ? `The ${shown.length} largest of ${keys.length}` : "All keys"}, before any bias or mask. Where one weight is nearly 1 and the others nearly 0, softmax passes on almost no gradient, and the scores hardly learn.`,
        ),
      ),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "scores"), { title: "scores", head: e.head }),
      sign(
        unscaled
          ? "unchanged ="
          : e.options.scale
            ? `divided by ${root} =`
            : "not divided, since scaling is switched off =",
      ),
      matrix(e, partOf(e, "scaled"), { title: unscaled ? "scores" : "scaled scores", head: e.head }),
    ],
  };
}

/** Whether the model has no 1/√d_k, as T5. */
export function isUnscaled(e, path = e.path) {
  return e.plan.get(`${path}.scaled`).factor === 1;
}

/** `softmax(Q Kᵀ / √d) V`, with the bias for the distance that some models add. */
export function attentionFormula(e, path) {
  const [, bias] = e.plan.get(`${path}.masked`).from;
  return `softmax(Q Kᵀ${isUnscaled(e, path) ? "" : " / √d"}${bias ? " + B" : ""}) V`;
}

export function maskScreen(e) {
  const node = e.plan.get(partOf(e, "masked"));
  const masks = node.causal && e.options.causal;
  const [unit, units] = [unitOf(e), unitsOf(e)];
  const scores = isUnscaled(e) ? "scores" : "scaled scores";
  const { query, key } = axesOf(e);
  const tokens = e.tokensOf(query.split(":")[1]);
  return {
    thought: node.causal
      ? `A ${unit} may not look at later ones: the model has to predict them. Their scores become −∞, and their weights 0.`
      : e.path.includes("cross")
        ? `Cross-attention hides nothing: each new ${unit} may look at the whole input.`
        : `This attention hides nothing: each ${unit} sees all others.`,
    choices: attentionChoice(e),
    body: [
      node.causal && !masks
        ? h(
            "p",
            { class: "note" },
            `The mask is switched off: the model sees the ${units} that it should predict. Trained like this, it would learn to copy them, and could not write.`,
          )
        : null,
      equation(e, [
        { name: partOf(e, "scaled"), head: e.head, title: scores, axes: [query, key] },
        node.from[1]
          ? [
              "+",
              { name: node.from[1], head: e.head, letter: "B", title: "distance bias", axes: [query, key] },
            ]
          : null,
        node.causal
          ? [
              "+",
              {
                letter: "M",
                title: masks ? "mask: 0, or −∞ (grey)" : "mask: off",
                rows: tokens,
                columns: tokens,
                value: (t, u) => (masks && u > t ? -Infinity : 0),
                axes: [query, key],
              },
            ]
          : null,
        "=",
        {
          name: partOf(e, "masked"),
          head: e.head,
          title: masks ? "masked scores" : "scores for the softmax",
          axes: [query, key],
        },
      ]),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "scaled"), { title: scores, head: e.head, current: currentRow(e) }),
      node.from[1] ? [sign("+"), matrix(e, node.from[1], { title: "distance bias", head: e.head })] : null,
      sign(masks ? `with later ${units} hidden =` : "with nothing hidden ="),
      matrix(e, partOf(e, "masked"), {
        title: masks ? "masked scores" : "scores for the softmax",
        head: e.head,
        current: currentRow(e),
      }),
    ],
  };
}

export function softmaxScreen(e) {
  const { query, key } = axesOf(e);
  return {
    thought: `Softmax turns the scores into weights from 0 to 1; each row adds up to 1.${e.plan.get(partOf(e, "masked")).causal && e.options.causal ? " A hidden key has the weight 0: e to the power −∞." : ""}`,
    choices: attentionChoice(e),
    body: [
      h(
        "p",
        { class: "formula" },
        symbol("w_ij"),
        " = exp(",
        symbol("s_ij"),
        ") / Σ",
        h("sub", "k"),
        " exp(",
        symbol("s_ik"),
        ")",
      ),
      equation(
        e,
        [
          "softmax",
          { name: partOf(e, "masked"), head: e.head, title: "scores", axes: [query, key], lights: "row" },
          "=",
          { name: partOf(e, "weights"), head: e.head, title: "attention weights", axes: [query, key] },
        ],
        heightForEquations(e) - 40,
      ),
      rowSums(e),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "masked"), {
        title: "scores for the softmax",
        head: e.head,
        current: currentRow(e),
      }),
      h("p", { class: "sign" }, "softmax of each row ="),
      matrix(e, partOf(e, "weights"), { title: "attention weights", head: e.head, current: currentRow(e) }),
    ],
  };
}

function rowSums(e) {
  const { data, shape } = e.record.arrays[partOf(e, "weights")];
  const [, rows, columns] = shape;
  const sums = range(rows, t =>
    range(columns, u => data[(e.head * rows + t) * columns + u]).reduce((sum, x) => sum + x, 0),
  );
  const same = new Set(sums.map(sum => sum.toFixed(3))).size === 1;
  return h(
    "p",
    { class: "sums" },
    same ? "Sum of each row: " : "Sums of the rows: ",
    (same ? sums.slice(0, 1) : sums).map((sum, t) => [
      t ? ", " : "",
      h("span", { class: "row-sum" }, sum.toFixed(3)),
    ]),
  );
}

export function weightedSumScreen(e) {
  const { query, key } = axesOf(e);
  return {
    thought: `Each ${unitOf(e)} takes up the values it attends to, as much of each as its weight says. In this way, its vector comes to carry its context.`,
    choices: attentionChoice(e),
    body: [
      equation(e, [
        { name: partOf(e, "weights"), head: e.head, title: "attention weights", axes: [query, key] },
        "·",
        {
          name: partOf(e, "v"),
          head: sharedHead(e),
          letter: "V",
          title: "values",
          axes: [key.replace("key", "value"), "head"],
        },
        "=",
        {
          name: partOf(e, "heads"),
          head: e.head,
          title: `weighted sums of head ${e.head + 1}`,
          axes: [query, "head"],
        },
      ]),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "weights"), { title: "attention weights", head: e.head, current: currentRow(e) }),
      h("p", { class: "sign" }, "times"),
      matrix(e, partOf(e, "v"), { title: "values", letter: "V", head: sharedHead(e) }),
      h("p", { class: "sign" }, "="),
      matrix(e, partOf(e, "heads"), {
        title: `weighted sums of head ${e.head + 1}`,
        head: e.head,
        current: currentRow(e),
      }),
    ],
  };
}

/** The four steps at once, for one query. */
export function attentionScreen(e) {
  const weights = e.record.arrays[partOf(e, "weights")];
  const rows = weights.shape[1];
  const t = Math.min(e.query ?? currentRow(e) ?? 0, rows - 1);
  const name = partOf(e, "weights");
  const keys = range(weights.shape[2], u => e.columnLabel(name, u));
  const read = part => range(keys.length, u => elementOf(e.record.arrays[partOf(e, part)], [e.head, t, u]));
  const {
    causal,
    from: [, bias],
  } = e.plan.get(partOf(e, "masked"));
  const unscaled = isUnscaled(e);
  const steps = [
    ["scores", "1. q · k"],
    unscaled ? null : ["scaled", "2. scaled"],
    bias ? ["bias", unscaled ? "2. bias" : "bias"] : null,
    causal ? ["masked", "masked"] : bias ? ["masked", "sum"] : null,
    ["weights", "3. softmax"],
  ].filter(Boolean);
  const columns = steps.map(([part]) => read(part));
  const second = unscaled
    ? "add a bias for the distance"
    : bias
      ? "scale and add a bias for the distance"
      : "scale";
  const number = (part, u, x) =>
    h(
      "td",
      h(
        "button",
        {
          type: "button",
          class: "link",
          "data-key": `${part}:${u}`,
          "aria-label": `${part} of ${keys[u]}: ${inTable(x, 3)}`,
          onclick: () =>
            e.set({ cell: { name: partOf(e, part), index: [e.head, t, u], gradient: false, weight: false } }),
        },
        inTable(x, 3),
      ),
    );
  return {
    thought: `Attention in four steps: compare the query with each key, ${second}, softmax, and take the weighted sum of the values.`,
    choices: attentionChoice(e),
    body: [
      e.backward && window.innerWidth < 600
        ? null
        : h(
            "p",
            { class: "formula" },
            withRoles("Attention(Q, K, V) = softmax(Q K"),
            h("sup", "⊤"),
            unscaled ? null : [" / √d", h("sub", "k")],
            bias ? " + B" : null,
            withRoles(") V"),
          ),
      h("p", { class: "label" }, titleOfRows(e, axesOf(e).query) ? "Query, after reading:" : "Query:"),
      wordRow(e, e.tokensOf(e.sideOfRows(name)), t, "Query", i => e.set({ query: i }), e.sideOfRows(name)),
      equation(e, fourSteps(e, t), heightForEquations(e, 150) - 50),
      scrolling(
        "Four steps",
        h(
          "table",
          { class: "steps" },
          h(
            "thead",
            h(
              "tr",
              ["key", ...steps.map(([, title]) => title), ""].map(text =>
                text ? h("th", { scope: "col" }, text) : h("td"),
              ),
            ),
          ),
          h(
            "tbody",
            keys.map((key, u) => {
              const bar = h("span", { class: "bar" });
              bar.style.width = `${100 * columns.at(-1)[u]}%`;
              return h(
                "tr",
                h("th", { scope: "row" }, pictured(e, key)),
                steps.map(([part], i) => number(part, u, columns[i][u])),
                h("td", { class: "track" }, bar),
              );
            }),
          ),
        ),
      ),
      h(
        "p",
        { class: "label" },
        `4. The weighted sum of the values is what “${e.rowLabel(name, t)}” takes from this head.`,
      ),
      h(
        "p",
        "Each step by itself: ",
        [
          ["qkv", "Q, K, V"],
          ["scores", "scores"],
          ["scale", "scaling"],
          ["mask", "mask"],
          ["softmax", "softmax"],
          ["weighted-sum", "weighted sum"],
        ]
          .filter(([to]) => e.screens.some(screen => screen.address === to))
          .map(([to, text], i) => [i ? " · " : "", h("a", { href: `#${to}:${e.path}` }, text)]),
      ),
    ],
    beside: wordsBeside(e),
    below: () =>
      matrix(e, partOf(e, "heads"), {
        title: `weighted sums of head ${e.head + 1}`,
        head: e.head,
        current: t,
      }),
  };
}

/** One query's way through an attention, in one row. */
function fourSteps(e, t) {
  const { query, key } = axesOf(e);
  const row = { rowRange: [t, 1], head: e.head };
  const isBare = window.innerWidth < ONE_ROW; // the scores have the same columns
  return [
    { name: partOf(e, "q"), ...row, letter: "q", title: "", axes: [query, "width"] },
    "·",
    {
      name: partOf(e, "k"),
      head: sharedHead(e),
      letter: "K",
      title: "",
      transposed: true,
      isBare,
      axes: ["width", key],
    },
    "=",
    { name: partOf(e, "scores"), ...row, title: "scores", axes: [query, key] },
    "→",
    { name: partOf(e, "weights"), ...row, title: "weights", axes: [query, key] },
    "·",
    {
      name: partOf(e, "v"),
      head: sharedHead(e),
      letter: "V",
      title: "",
      axes: [key.replace("key", "value"), "head"],
    },
    "=",
    { name: partOf(e, "heads"), ...row, title: "sum", axes: [query, "head"] },
  ];
}

export function headsScreen(e) {
  const { heads, kvHeads, headWidth, width } = e.stackOf(e.path);
  const projections =
    kvHeads === heads
      ? [symbol("W_Q"), ", ", symbol("W_K"), " and ", symbol("W_V")]
      : [symbol("W_Q"), `; ${heads / kvHeads} heads share each `, symbol("W_K"), " and ", symbol("W_V")];
  const node = e.plan.get(partOf(e, "output"));
  const { query } = axesOf(e);
  const weights = e.record.arrays[partOf(e, "weights")];
  const off = e.options.ablated[e.path] ?? [];
  const summary = i => headSummary(weights, i, unitsOf(e), e.path.includes("self") && !e.isImage);
  const card = i =>
    h(
      "div",
      { class: `head ${headClass(i)}${i === e.head ? " current" : ""}${off.includes(i) ? " off" : ""}` },
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "data-key": `card:${i}`,
          "aria-pressed": i === e.head ? "true" : "false",
          onclick: () => e.set({ head: i }),
        },
        h("span", { class: "name" }, "Head "),
        `${i + 1}`,
        heatPicture(weights, i, `Weights of head ${i + 1}`),
      ),
      hint(summary(i)),
    );
  return {
    thought: [
      heads > 1
        ? `${heads} heads attend at the same time. Each projects the whole vector of ${width} numbers to ${headWidth} with its own `
        : `This attention has one head. It projects the whole vector of ${width} numbers to ${headWidth} with `,
      projections,
      heads > 1
        ? ". So each can attend to something else. Side by side, their outputs are multiplied by "
        : ". Its output is multiplied by ",
      symbol("W_O"),
      ".",
    ],
    choices: attentionChoice(e, false),
    body: [
      h("div", { class: heads > 9 ? "heads two-digits" : "heads" }, range(heads, card)),
      h("p", { class: "hint head-says" }, `Head ${e.head + 1}: ${summary(e.head)}`),
      equation(
        e,
        [
          { name: partOf(e, "concat"), title: "heads side by side", axes: [query, "width"] },
          "·",
          {
            name: node.weight,
            weight: true,
            transposed: true,
            title: "",
            letter: "W_O",
            axes: ["width", "out"],
          },
          isThere(e, node.bias) ? "+ b =" : "=",
          { name: partOf(e, "output"), title: "output of the attention", axes: [query, "out"] },
        ],
        Math.max(90, heightForEquations(e, 75) - 120),
      ),
    ],
    beside: wordsBeside(e),
    below: () => [
      matrix(e, partOf(e, "concat"), { title: "heads side by side", current: currentRow(e) }),
      sign("times ", symbol("W_O"), biasOf(e, node.bias), " ="),
      matrix(e, partOf(e, "output"), { title: "output of the attention", current: currentRow(e) }),
    ],
  };
}

/** How far a head looks, and to how many words. */
function headSummary(weights, head, units, isSelf) {
  const [, rows, columns] = weights.shape;
  let entropy = 0;
  let distance = 0;
  for (let t = 0; t < rows; t++)
    for (let u = 0; u < columns; u++) {
      const w = elementOf(weights, [head, t, u]);
      if (w > 0) entropy -= w * Math.log(w);
      distance += w * Math.abs(t - u);
    }
  const spread = `about ${Math.exp(entropy / rows).toFixed(1)} ${units} at once`;
  return isSelf ? `${spread}, ${(distance / rows).toFixed(1)} away on average` : spread;
}

export function alignmentScreen(e) {
  const paths = e.attentionPaths().filter(path => path.includes("cross"));
  const path = e.alignPath;
  const name = `${path}.weights`;
  const heads = e.stackOf(path).heads;
  const mean = meanOfHeads(e.record.arrays[name]);
  const isMean = e.alignHead === undefined || e.alignHead >= heads;
  const array = isMean ? mean : e.record.arrays[name];
  const head = isMean ? 0 : e.alignHead;
  const [rows, columns] = [e.tokensOf("target"), e.tokensOf("source")];
  const said = e.labels().map((_, t) => e.labelShown(t));
  const chosen = e.query < said.length ? e.query : null;
  return {
    thought: `For each ${unitOf(e)} that is written, cross-attention shows where in the input the decoder looked. In a translation these are often the ${unitsOf(e)} that are being translated, though training never said which. Heads differ, and some show no such order.`,
    choices: h(
      "div",
      { class: "choices" },
      choice(
        "Layer",
        paths.map(each => [each, titleOfPath(each)]),
        path,
        each => e.go(`alignment:${each}`),
      ),
      choice(
        "Head",
        [
          ["mean", "mean of all heads"],
          ...range(heads, i => [`${i}`, `head ${i + 1}${isOff(e, path, i) ? " (off)" : ""}`]),
        ],
        isMean ? "mean" : `${head}`,
        value => e.set({ alignHead: value === "mean" ? undefined : Number(value) }),
      ),
    ),
    body: [
      attentionPicture(
        e,
        array,
        head,
        [said, columns],
        ["target", "source"],
        brightnessOf(e, path, isMean ? null : head),
        isMean,
      ),
      h("p", { class: "label" }, "When writing:"),
      wordRow(e, said, chosen, "When writing", t => e.set({ query: t === chosen ? undefined : t })),
      chosen === null
        ? null
        : [
            h("p", "the decoder looked at:"),
            shares(
              e,
              columns,
              array.data.subarray((head * rows.length + chosen) * columns.length).slice(0, columns.length),
              percent,
            ),
          ],
      hint(twoNames(e, chosen ?? Math.min(1, said.length - 1))),
    ],
    beside: [
      h("h3", "Where it looked most"),
      scrolling(
        "Where it looked most",
        bars(
          said.map((word, t) => {
            const row = array.data.subarray(
              (head * rows.length + t) * columns.length,
              (head * rows.length + t + 1) * columns.length,
            );
            const [u] = largestIndices(row, 1);
            return [word, row[u], [h("b", columns[u]), ` ${percent(row[u])}`]];
          }),
          "Where it looked most",
        ),
      ),
    ],
    below: () => [
      h(
        "figure",
        h(
          "figcaption",
          `Down: the ${unitOf(e)} that is written, and the last one that the decoder has read. Across: the input.`,
        ),
        plainTable(e, {
          title: "Alignment",
          corner: "when writing",
          rows: said,
          columns,
          heads: t => [`after ${rows[t]}`],
          value: (t, u) => elementOf(array, [head, t, u]),
          text: x => x.toFixed(3),
          look: { largest: 1, isProbability: true },
        }),
      ),
    ],
  };
}

export function meanOfHeads({ data, shape: [heads, rows, columns] }) {
  const mean = new Float32Array(rows * columns);
  data.forEach((x, i) => {
    mean[i % (rows * columns)] += x / heads;
  });
  return { shape: [1, rows, columns], data: mean };
}
