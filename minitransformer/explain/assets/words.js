// Stages from text to the input of the first layer.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { isThere, range } from "./derive.js";
import { hint, scrolling, shownToken, unitOf } from "./elements.js";
import { equation, heightForEquations } from "./equation.js";
import { currentToken } from "./image.js";
import { tips } from "./layers.js";
import { matrix } from "./matrix.js";
import { norm, precise } from "./numbers.js";
import { bars, wordRow } from "./pictures.js";
import { inputSum, sign, sumEquation } from "./positions.js";
import { recurrentName } from "./recurrent.js";
import { largestIndices } from "./state.js";

/** What a BERT predicts of a text, by its head. */
const PREDICTS = {
  masked_lm: "what belongs in each gap",
  classification: "which class it belongs to",
  token_classification: "which class each of its tokens belongs to",
  similarity: "which of these sentences is nearest in meaning",
  next_sentence: "whether its second sentence follows its first",
};

export function opening(e) {
  const unit = unitOf(e);
  const answer = e.structure.output.head ? "an answer" : `a ${unit} of the answer`;
  const why =
    e.isImage || e.isRecurrent
      ? `Click ${answer} to see why.`
      : `Point at a ${unit} to see where it looks; click ${answer} to see why.`;
  const weights = e.data.isQuantized
    ? "Its matrices are stored as 8-bit integers, with a scale for each row. "
    : "";
  const live = `${why} ${weights}Your browser computes every number.`;
  if (e.isPair)
    return `A Transformer reads the whole input at once, and writes its answer one ${unit} at a time. ${live}`;
  if (e.isImage)
    return `A Vision Transformer cuts an image into patches, and reads them as a text model reads its tokens. ${live}`;
  if (e.structure.output.head)
    return `BERT reads a text in both directions at once, and predicts ${PREDICTS[e.structure.output.head]}. ${live}`;
  if (e.isRecurrent)
    return `${recurrentName(e)} reads a text ${unit} by ${unit}, and carries a state from each to the next. From the state it predicts the next ${unit}. ${live}`;
  return `${e.data.model_type === "llama" ? "Llama" : "GPT"} reads a text and predicts the next ${unit}. That is appended to the text, and the model reads on. ${live}`;
}

export function tokensScreen(e) {
  const source = [...e.record.source].slice(0, e.prompt);
  const { tokens, unk_id: unknownId, end_id: endId } = e.data.tokenizer;
  const unknown = source.filter(id => id === unknownId).length;
  const { before = [], after = [] } = e.data.input;
  const added = [...before, ...after].map(id => tokens[id]);
  return {
    thought: `The text becomes ${source.length} tokens, and each token becomes its id: its row in the vocabulary of ${tokens.length.toLocaleString("en")} entries.`,
    body: [
      h("blockquote", { class: "text", dir: "auto" }, e.textRead),
      scrolling(
        "Tokens",
        h(
          "table",
          { class: "tokens" },
          h(
            "thead",
            h(
              "tr",
              ["position", "token", "id"].map(text => h("th", { scope: "col" }, text)),
            ),
          ),
          h(
            "tbody",
            source.map((id, t) =>
              h(
                "tr",
                h("th", { scope: "row" }, `${t}`),
                h("td", { class: "word", dir: "auto", "data-token": `source:${t}` }, e.tokensOf("source")[t]),
                h("td", `${id}`),
              ),
            ),
          ),
        ),
      ),
      unknown
        ? h(
            "p",
            { class: "note" },
            `${unknown} of the tokens ${unknown === 1 ? "stands" : "stand"} for text that is not in the vocabulary: all of it shares one row, ${tokens[unknownId]}.`,
          )
        : null,
      added.length
        ? hint(
            `Added to the text: ${added.join(", ")}.${source.at(-1) === endId ? ` ${tokens[endId]} marks its end.` : ""}`,
          )
        : null,
    ],
    beside: vocabularyAround(e, source),
  };
}

/** The rows of the vocabulary that the text uses, with their neighbours. */
function vocabularyAround(e, source) {
  const { length } = e.data.tokenizer.tokens;
  const shown = [...new Set([...source].flatMap(id => [id - 1, id, id + 1]))]
    .filter(id => id >= 0 && id < length)
    .sort((a, b) => a - b);
  const title = `The vocabulary: ${length.toLocaleString("en")} tokens`;
  return [
    h("h3", title),
    h(
      "div",
      { class: "scroll vocabulary", tabindex: 0, role: "region", "aria-label": title },
      h(
        "table",
        { class: "tokens" },
        h(
          "tbody",
          shown.map((id, i) => [
            id > (shown[i - 1] ?? -1) + 1 ? h("tr", h("th", "⋮"), h("td")) : null,
            h(
              "tr",
              h("th", { scope: "row" }, `${id}`),
              h(
                "td",
                { class: source.includes(id) ? "entry chosen" : "entry", dir: "auto" },
                shownToken(e.tokenOf(id)),
              ),
            ),
          ]),
        ),
      ),
    ),
  ];
}

export function embeddingsScreen(e) {
  const stack = e.structure.stacks[0];
  const ids = e.record.source;
  const t = Math.min(e.word, ids.length - 1);
  const id = ids[t];
  const token = shownToken(e.tokenOf(id));
  const name = `${stack.name}.embedded`;
  const size = e.weights[stack.embedding].shape;
  return {
    thought: `Each token has a learned vector of ${size[1]} numbers: a row of the matrix E (${size[0]} × ${size[1]}). Looking it up is the same as multiplying a one-hot vector by E.`,
    body: [
      wordRow(e, e.tokensOf("source"), t, "Token to look up", i => e.set({ word: i }), "source"),
      oneHot(e, id, size[0]),
      equation(
        e,
        [
          { name, letter: "E", title: "rows for these tokens", axes: ["token:source", "width"] },
          stack.factor
            ? [
                "· √d =",
                {
                  name: `${stack.name}.scaled`,
                  title: `${unitOf(e)} vectors`,
                  axes: ["token:source", "width"],
                },
              ]
            : null,
        ],
        heightForEquations(e, 90),
      ),
    ],
    beside: [
      h("h3", `Tokens whose vectors point most nearly the same way as “${token}”`),
      nearest(e, stack.embedding, id),
    ],
    below: () => [
      matrix(e, name, { title: "the rows of E for these tokens", current: t }),
      stack.factor
        ? [
            h(
              "p",
              `The vectors are multiplied by √${size[1]} = ${precise(stack.factor)}, so that they are not small beside the position vectors.`,
            ),
            matrix(e, `${stack.name}.scaled`, { title: `${unitOf(e)} vectors times √d`, current: t }),
          ]
        : null,
    ],
  };
}

/** 0 0 1 0 ... times E is a row of E. */
function oneHot(e, id, count) {
  const from = Math.max(0, Math.min(id - 2, count - 5));
  const around = range(Math.min(5, count), i => from + i);
  return scrolling(
    "One-hot vector",
    h(
      "table",
      { class: "onehot" },
      h(
        "caption",
        `One-hot vector of “${shownToken(e.tokenOf(id))}”: 1 at ${id}, 0 at the other ${(count - 1).toLocaleString("en")} places`,
      ),
      h(
        "thead",
        h(
          "tr",
          from > 0 ? h("th", { scope: "col" }, "…") : null,
          around.map(i => h("th", { scope: "col" }, `${i} ${shownToken(e.tokenOf(i))}`)),
          h("th", { scope: "col" }, "…"),
        ),
      ),
      h(
        "tbody",
        h(
          "tr",
          from > 0 ? h("td", "0") : null,
          around.map(i => h("td", { class: i === id ? "chosen" : null }, i === id ? "1" : "0")),
          h("td", "0"),
        ),
      ),
    ),
  );
}

/** The most similar rows of E, by the cosine of their angle. */
function nearest(e, weight, id) {
  const { data, shape } = e.weights[weight];
  const row = i => data.subarray(i * shape[1], (i + 1) * shape[1]);
  const own = row(id);
  const cosines = Float64Array.from(
    { length: shape[0] },
    (_, i) => dotProduct(row(i), own) / (norm(row(i)) * norm(own) || 1),
  );
  cosines[id] = -2;
  return bars(
    largestIndices(cosines, 6).map(i => [shownToken(e.tokenOf(i)), cosines[i], cosines[i].toFixed(2)]),
    "Cosines",
  );
}

export function dotProduct(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export function shiftedScreen(e) {
  const stack = e.structure.stacks[1];
  const inputs = e.tokensOf("target");
  return {
    thought: `The decoder reads what has been written so far, behind a start token: the output, shifted right by one. At each place it predicts the next ${unitOf(e)}.`,
    body: [
      scrolling(
        "What is read and predicted",
        h(
          "table",
          { class: "tokens" },
          h(
            "tbody",
            h(
              "tr",
              h("th", { scope: "row" }, "reads"),
              inputs.map((word, t) =>
                h("td", { class: t === e.step ? "word current" : "word", "data-token": `target:${t}` }, word),
              ),
            ),
            h(
              "tr",
              h("th", { scope: "row" }, "predicts"),
              e
                .labels()
                .map((_, t) => h("td", { class: t === e.step ? "word current" : "word" }, e.labelShown(t))),
            ),
          ),
        ),
      ),
      sumEquation(e, stack),
    ],
    beside: tips(e),
    below: () => [
      stack.factor
        ? [
            matrix(e, `${stack.name}.embedded`, { title: "the rows of E for these tokens", current: e.step }),
            sign(`times √d = ${precise(stack.factor)} =`),
          ]
        : null,
      inputSum(e, stack, e.step),
    ],
  };
}

export function patchesScreen(e) {
  const { weight, bias } = e.plan.get("encoder.embedded");
  return {
    thought:
      "The image is cut into squares. The pixels of each, side by side, are multiplied by a learned matrix: now each patch is a vector, as each token is in a text model.",
    body: [
      wordRow(e, e.tokensOf("source"), currentToken(e), "Token", i => e.set({ query: i, cell: null })),
      equation(
        e,
        [
          { name: "patches", letter: "X", title: "pixels", axes: ["token:patches", "pixel"] },
          "·",
          { name: weight, weight: true, transposed: true, letter: "W", title: "", axes: ["pixel", "width"] },
          isThere(e, bias) ? "+ b =" : "=",
          { name: "encoder.embedded", title: "vectors of the patches", axes: ["token:patches", "width"] },
        ],
        heightForEquations(e, 90),
      ),
      h(
        "p",
        "In front of them comes a learned vector, the class token [CLS]. Its last state is what gets classified.",
      ),
      equation(e, [{ name: "encoder.class", title: "vector of [CLS]", axes: ["token:class", "width"] }], 26),
    ],
    beside: tips(e),
    below: () => [
      matrix(e, "patches", { title: "pixels of each patch" }),
      sign(
        `times a learned matrix (${e.weights[weight].shape.toReversed().join(" × ")})`,
        biasOf(e, bias),
        " =",
      ),
      matrix(e, "encoder.embedded", { title: "vectors of the patches" }),
      matrix(e, "encoder.class", { title: "vector of [CLS]" }),
    ],
  };
}

/** ", plus a bias", of a step that has one. */
export function biasOf(e, bias) {
  return isThere(e, bias) ? ", plus a bias" : "";
}
