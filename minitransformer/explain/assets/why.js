// Why a word of the answer was written: where the model looked, and by how much its logit is the largest.
//
// `opened` is "why-2-1" for the first candidate of the second row of the logits.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { addressOf } from "./address.js";
import { isUnscaled, meanOfHeads } from "./attention.js";
import { headClass } from "./colours.js";
import { range } from "./derive.js";
import { answerUnit, hint, shownToken, titleOfPath, unitOf } from "./elements.js";
import { threeDigits } from "./equation.js";
import { imageCanvas } from "./image.js";
import { wordField } from "./journey.js";
import { decimalsFor, elementOf, inTable, largestOf, norm, percent, rowOf } from "./numbers.js";
import { compared, shares } from "./pictures.js";
import { closeCard } from "./stagewords.js";
import { isOff, largestIndices } from "./state.js";

/** Which answer is asked about: a row of the logits, and the rank of the candidate; null if none is. */
export function askedAnswer(e) {
  const [, row, rank] = /^why-([1-9]\d*)-([1-9]\d*)$/.exec(e.opened ?? "") ?? [];
  const [rows, words] = e.record.arrays.logits.shape;
  return row <= rows && rank <= words ? { t: row - 1, rank: rank - 1 } : null;
}

/** The likeliest words of a row, after temperature, top-k and top-p. */
export function likeliest(e, t, most) {
  const p = distributionAt(e, t);
  return largestIndices(p, most).map(id => ({ id, p: p[id] }));
}

export function distributionAt(e, t) {
  const { temperature, topK, topP } = e.sampling;
  return e.model.distribution(e.logitsAt(t), { temperature, topK, topP });
}

/** The attention from which a row of the logits is computed last: of a decoder, the one to the input. */
function lastAttention(e) {
  const paths = e.attentionPaths();
  return paths.findLast(path => path.includes("cross")) ?? paths.at(-1) ?? null;
}

/** The card of the answer that is asked about. */
export function answerCard(e) {
  const asked = askedAnswer(e);
  if (!asked) return null;
  const { t, rank } = asked;
  const { id } = likeliest(e, t, rank + 1)[rank];
  const word = shownToken(e.wordOf(id));
  const title = rank ? `Why not “${word}”?` : `Why “${word}”?`;
  const rows = e.record.arrays.logits.shape[0];
  const turn = (by, sign_, label) =>
    h(
      "button",
      {
        type: "button",
        "aria-label": label,
        "data-key": `why-turn:${by}`,
        disabled: t + by < 0 || t + by >= rows,
        onclick: () => e.set({ step: t + by, opened: `why-${t + by + 1}-1` }),
      },
      sign_,
    );
  return h(
    "section",
    { class: "card answer-card", role: "dialog", "aria-label": title },
    h(
      "div",
      { class: "card-head" },
      h("h3", title),
      rows > 1
        ? h("span", { class: "together" }, turn(-1, "‹", "Answer before"), turn(1, "›", "Next answer"))
        : null,
      h(
        "button",
        {
          type: "button",
          class: "close",
          "aria-label": "Close the card",
          "data-key": "card-close",
          onclick: () => closeCard(e),
        },
        "✕",
      ),
    ),
    lastAttention(e) ? whereItLooked(e, t) : whatItDependsOn(e, t, id),
    howItWon(e, t, id, rank),
  );
}

/** A link to a stage with other choices, which leads there from any view. */
function stageLink(e, screen, changes) {
  const address = addressOf(Object.assign(Object.create(e), { screen, opened: null, cell: null }, changes));
  return h(
    "a",
    { href: address.includes("?") ? address : `${address}?` },
    e.screens.find(each => each.address === screen).title,
  );
}

// ------------------------------------------------------------ where it looked

/** Of the answer that is asked about: the head and the key of the last attention that decided; null without one. */
export function chainOf(e) {
  const asked = askedAnswer(e);
  if (!asked || !lastAttention(e)) return null;
  const { path, head, best } = attended(e, asked.t);
  return head === null ? null : { t: asked.t, path, head, best };
}

/** What a row attended to: the mean of the heads, and the head that looks most at the first of the keys. */
function attended(e, t) {
  const path = lastAttention(e);
  const weights = e.record.arrays[`${path}.weights`];
  const [heads, , columns] = weights.shape;
  const mean = meanOfHeads(weights).data.subarray(t * columns, (t + 1) * columns);
  const [best] = largestIndices(mean, 1);
  const on = range(heads, i => i).filter(i => !isOff(e, path, i));
  if (!on.length) return { path, mean, head: null };
  const weight = (head, u) => elementOf(weights, [head, t, u]);
  const head = on.reduce((most, i) => (weight(i, best) > weight(most, best) ? i : most));
  const others = range(columns, u => u).filter(u => u !== best);
  return {
    path,
    mean,
    head,
    best,
    second: others.length
      ? others.reduce((most, u) => (weight(head, u) > weight(head, most) ? u : most))
      : null,
  };
}

function whereItLooked(e, t) {
  const { path, mean, head, best, second } = attended(e, t);
  const keys = range(mean.length, u => e.columnLabel(`${path}.weights`, u));
  const query = e.rowLabel(`${path}.weights`, t);
  const { heads, causal } = e.stackOf(path);
  const says = e.isPair
    ? `While it chose the ${unitOf(e)} after “${query}”, the decoder looked at`
    : causal
      ? `After reading “${query}”, the model looked at`
      : `“${query}” looked at`;
  const cell = { name: `${path}.scores`, index: [head, t, best], gradient: false, weight: false };
  const looks = e.isPair
    ? stageLink(e, "alignment", { alignPath: path, alignHead: undefined, query: t, step: t })
    : stageLink(e, e.isImage ? "looks" : "attention", {
        path,
        head: head ?? 0,
        query: t,
        step: stepAt(e, t),
      });
  return [
    h("p", `${says}: `),
    e.isImage
      ? imageCanvas(e, 120, { weights: [...mean], label: `The image, and over it what ${query} looked at` })
      : null,
    shares(e, keys, mean, percent),
    hint(`${heads > 1 ? `Mean of the ${heads} heads of ` : ""}${titleOfPath(path)}. `, looks),
    head === null
      ? h("p", "All its heads are off: they give 0.")
      : h(
          "p",
          whyThere(e, path, [head, t], keys, best, second),
          " ",
          stageLink(e, "scores", { path, head, query: t, step: stepAt(e, t), cell }),
        ),
  ];
}

/** The step of a row; of a text that has one answer there is no choice. */
function stepAt(e, t) {
  return e.record.arrays.logits.shape[0] === 1 ? e.step : t;
}

/** The scores of two keys in a head, and what softmax makes of them. */
function whyThere(e, path, [head, t], keys, best, second) {
  const read = (part, u) => elementOf(e.record.arrays[`${path}.${part}`], [head, t, u]);
  const {
    from: [, bias],
  } = e.plan.get(`${path}.masked`);
  const isDivided = !isUnscaled(e, path) && e.options.scale;
  const root = threeDigits(Math.sqrt(e.stackOf(path).headWidth));
  const score = u => {
    const added = bias ? ` + ${threeDigits(elementOf(e.record.arrays[bias], [head, t, u]))}` : "";
    const sum = `${threeDigits(read("scores", u))}${isDivided ? ` / ${root}` : ""}${added}`;
    return isDivided || bias ? `${sum} = ${threeDigits(read("masked", u))}` : sum;
  };
  const { heads } = e.stackOf(path);
  const says =
    heads > 1
      ? [
          h("span", { class: headClass(head) }, `Head ${head + 1}`),
          ` looks most at “${keys[best]}”, of all heads`,
        ]
      : `Why “${keys[best]}”`;
  const formula = ["q · k", isDivided ? " / √d" : "", bias ? " + bias" : ""].join("");
  const against = second === null ? "" : `; with that of “${keys[second]}” ${score(second)}`;
  const weights =
    second === null
      ? `softmax gives it ${read("weights", best).toFixed(3)}`
      : `softmax gives ${read("weights", best).toFixed(3)} against ${read("weights", second).toFixed(3)}`;
  return [says, ": with its key, ", h("i", formula), ` = ${score(best)}${against}: ${weights}.`];
}

/** Of a model without attention: the lengths of the gradients at what it has read. */
function whatItDependsOn(e, t, id) {
  const { activations } = e.model.backward(e.record, { labels: e.labels().with(t, id), positions: [t] });
  const { name } = e.structure.stacks[0];
  const words = e.tokensOf("source").slice(0, t + 1);
  const lengths = words.map((_, u) => norm(rowOf(activations[`${name}.input`], u)));
  const largest = largestOf(lengths);
  return [
    h(
      "p",
      `After reading “${words[t]}”, the state holds the text so far. “${shownToken(e.wordOf(id))}” depends most on:`,
    ),
    shares(e, words, lengths, x => inTable(x, decimalsFor(largest)), largest),
    hint("Lengths of the gradients of its loss at the input vectors. ", stageLink(e, "pull", { step: t })),
  ];
}

// ------------------------------------------------------------ how it won

/** The logits of the best three and of the one that is asked about, and what their difference makes. */
function howItWon(e, t, id, rank) {
  const logits = e.logitsAt(t);
  const probabilities = e.model.distribution(logits);
  const best = largestIndices(logits, 3);
  const shown = best.includes(id) ? best : [...best, id];
  const name = v => `“${shownToken(e.wordOf(v))}”`;
  const rest = logits.length - shown.length;
  const rival = rank ? best[0] : best[1];
  const [first, second] = logits[id] >= logits[rival] ? [id, rival] : [rival, id];
  const shownLogit = v => Number(logits[v].toFixed(3)); // their difference is right as it is read
  const { temperature, topK, topP } = e.sampling;
  const isSampled = temperature !== 1 || topK > 0 || topP < 1;
  return [
    h(
      "p",
      "The last state gives each ",
      answerUnit(e),
      " a logit, and softmax makes probabilities of them. ",
      stageLink(e, "logits", { step: stepAt(e, t) }),
      " · ",
      stageLink(e, "probabilities", { step: stepAt(e, t) }),
    ),
    h(
      "table",
      { class: "won" },
      h("caption", { class: "unseen" }, "Logits and probabilities"),
      h(
        "thead",
        h("tr", h("td"), h("th", { scope: "col" }, "logit"), h("th", { scope: "col" }, "probability")),
      ),
      h(
        "tbody",
        shown.map(v =>
          h(
            "tr",
            { class: v === id ? "current" : null },
            h("th", { scope: "row" }, shownToken(e.wordOf(v))),
            h("td", inTable(logits[v], 3)),
            h("td", compared(e, t, v, probabilities[v])[0]),
          ),
        ),
        rest > 0
          ? h(
              "tr",
              h("th", { scope: "row" }, `${rest.toLocaleString("en")} others`),
              h("td"),
              h("td", percent(1 - shown.reduce((sum, v) => sum + probabilities[v], 0))),
            )
          : null,
      ),
    ),
    rest > 0
      ? wordField(e, t, "Why not", v => e.set({ opened: `why-${t + 1}-${rankOf(e, t, v) + 1}` }), "")
      : null,
    rival === undefined
      ? null
      : h(
          "p",
          `${name(first)} against ${name(second)}: ${inTable(logits[first], 3)} − ${inBrackets(inTable(logits[second], 3))} = ${inTable(shownLogit(first) - shownLogit(second), 3)}. So ${name(first)} is ${asTimes(Math.exp(logits[first] - logits[second]))} times as likely: e to the power of this difference.`,
        ),
    isSampled ? hint("These probabilities are at temperature 1, without top-k and top-p.") : null,
  ];
}

/** The place of a word among the candidates, from 0. */
function rankOf(e, t, id) {
  return distributionAt(e, t).reduce(
    (before, p, v, all) => before + Number(p > all[id] || (p === all[id] && v < id)),
    0,
  );
}

function inBrackets(text) {
  return text.startsWith("−") ? `(${text})` : text;
}

/** How many times as likely: three digits. */
function asTimes(x) {
  return x < 1e6 ? Number(x.toPrecision(3)).toLocaleString("en") : x.toExponential(1).replace("e+", " · 10^");
}
