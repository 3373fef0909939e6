// What if: beside the changed model, what the whole one says of the same input.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { SWITCHES } from "./address.js";
import { range } from "./derive.js";
import { answerUnit, headsOf, hint, shownToken, unitOf, unitsOf } from "./elements.js";
import { capitalized } from "./map.js";
import { elementOf, percent } from "./numbers.js";
import { answerText, bestLabelsOf, isSameBag } from "./state.js";

/** What the whole model answers, beside the answer of the changed one; how sure that is, if they are the same. */
export function answerBefore(e) {
  const text = e.before ? answerText(e, e.before.answer, bestLabelsOf(e.before.record)) : "";
  const same = () =>
    e.before.twin
      ? `same answer as to “${e.twin}”`
      : `same answer${e.options.causal ? `, ${sureness(e)}` : ""}`;
  if (!e.before || !(text || e.isPair)) return null;
  return h("p", { class: "before", dir: "auto" }, isSameAnswer(e) ? same() : `before: ${text || "(nothing)"}`);
}

function isSameAnswer(e) {
  if (e.before.answer) return String(e.before.answer.ids) === String(e.answer.ids);
  const [was, is] = [e.before.record, e.record].map(bestLabelsOf);
  return e.lossPositions().every(t => was[t] === is[t]);
}

function sureness(e) {
  const [was, is] = rivalLosses(e);
  return Math.abs(is - was) < 0.0005 ? "as sure as before" : is > was ? "less sure" : "more sure";
}

// ------------------------------------------------------------ in words

/** What the parts that are off take away, and what that changed; of an order that is lost, another one to try. */
export function whatChanged(e) {
  const order = e.options.positions ? null : otherOrder(e);
  const { was, is, labels } = e.rivals;
  const rows = rightRows(e, was, is, { labels })
    .sort((a, b) => Math.abs(b.is - b.was) - Math.abs(a.is - a.was))
    .slice(0, 3)
    .sort((a, b) => a.t - b.t);
  const moved = rows
    .filter(({ was, is }) => percent(was) !== percent(is))
    .map(({ word, was, is }) => unbroken(`${word} ${percent(was)} → ${percent(is)}`));
  const isSame = isSameAnswer(e);
  const given = e.before.reading ? "the old one" : "the right one";
  const said = isSame
    ? `Same answer${e.options.causal ? `, ${sureness(e)}` : moved.length ? ". Its probabilities, all read at once" : ""}`
    : `Another answer${moved.length ? `. Probabilities of ${given}` : ""}`;
  return [
    h("span", { class: "taken-away" }, takenAway(e, order)),
    " ",
    e.before.twin
      ? h("span", { class: "twins" }, sameProbabilities(e))
      : h(
          "span",
          { class: "what-changed" },
          `${said}${moved.length ? `: ${moved.join(", ")}` : ""}.`,
          ` ${e.before.reading && !isSame ? "With teacher forcing, the" : "The"} loss of the ${e.target || e.rightClass() >= 0 ? "right answer" : "whole model's answer"}: ${unbroken(lossChange(e))}.`,
        ),
    " ",
    order
      ? h(
          "button",
          {
            type: "button",
            class: "link",
            "data-key": "twin",
            onclick: () => e.set({ text: order, twin: e.before.twin ? null : e.textRead }),
          },
          `${e.before.twin ? "back to" : "try"}: ${order}`,
        )
      : null,
  ];
}

function unbroken(text) {
  return text.replaceAll(" ", "\u00a0");
}

/** The predictions that count, of the labels that are shown or of others. */
export function positionsIn(e, labels) {
  return e.chosen ? e.chosen.filter(t => t < labels.length) : range(labels.length, t => t);
}

/** Of each right answer that counts, its probability in two passes; `rowIn` finds its row in the first. */
function rightRows(e, first, second, { labels = e.labels(), rowIn = t => t } = {}) {
  const share = (record, t, id) => elementOf(record.arrays.probabilities, [t, id]);
  const shown = t => (labels[t] === e.labels()[t] ? e.labelShown(t) : shownToken(e.wordOf(labels[t])));
  const word = t => (answerUnit(e) === "class" ? `“${shown(t)}”` : shown(t));
  return positionsIn(e, labels).map(t => ({
    t,
    word: word(t),
    was: share(first, rowIn(t), labels[t]),
    is: share(second, t, labels[t]),
  }));
}

/** What is missing without the parts that are off. */
function takenAway(e, order) {
  const { options } = e;
  const places = Object.entries(options.ablated).filter(([, heads]) => heads.length);
  const isOne = places.length === 1 && places[0][1].length === 1;
  const off = [
    ...SWITCHES.filter(key => !options[key]),
    ...places.map(([path, heads]) => headsOf(e, path, heads)),
  ];
  const names = { causal: "the causal mask", positions: "positions", scale: "scaling", memory: "memory" };
  if (off.length > 1) return `Off: ${off.map(key => names[key] ?? key).join(", ")}.`;
  const [unit, units] = [unitOf(e), unitsOf(e)];
  const reader = e.isPair ? "encoder" : "model";
  switch (off[0]) {
    case "positions":
      if (e.isImage)
        return "Without positions the model cannot tell where a patch lies: in any order, the patches are the same to it.";
      if (e.structure.stacks[0].causal)
        return `Without positions only the causal mask tells the order of the ${units}.`;
      return order
        ? `Without positions the ${reader} cannot tell “${e.textRead}” from “${order}”: it is the same bag of ${units}.`
        : `Without positions the ${reader} reads a bag of ${units}: their order is lost.`;
    case "scale": {
      const [was, is] = [e.before.record, e.record].map(record => meanLargestWeight(e, record).toFixed(2));
      return `Without scaling the scores are √d = ${(1 / e.structure.stacks[0].scale).toPrecision(3)} times as large, so softmax gives more to the largest: on average ${unbroken(`${was} → ${is}`)} of the weight.`;
    }
    case "causal":
      return `Without the causal mask each ${unit} that is ${e.isPair ? "written" : "read"} also sees those after it, which it should predict.${e.structure.output.head ? "" : ` The strips are of a pass over the answer; the words on top were written one by one.`}`;
    case "memory":
      return `Without memory each step sees its own ${unit} only: all before it are lost.`;
    default:
      return `${capitalized(off[0])} ${isOne ? "gives" : "give"} 0: what ${isOne ? "it takes" : "they take"} from other ${units} is missing.`;
  }
}

/** The largest weight of a query, on average over all queries, heads and attentions. */
function meanLargestWeight(e, { arrays }) {
  const largest = e.attentionPaths().flatMap(path => {
    const { data, shape } = arrays[`${path}.weights`];
    const width = shape.at(-1);
    return range(data.length / width, t => Math.max(...data.subarray(t * width, (t + 1) * width)));
  });
  return largest.reduce((sum, x) => sum + x, 0) / largest.length;
}

const ANY_WORD = /[\p{L}\p{M}\p{N}'’[\]]+/gu;

/** The same words in the opposite order, for an encoder that sees no order; null if their tokens are others. */
function otherOrder(e) {
  if (e.isImage || e.isRecurrent || e.structure.stacks[0].causal) return null;
  const words = e.textRead.match(ANY_WORD) ?? [];
  const text = e.textRead.replace(ANY_WORD, () => words.pop());
  return text !== e.textRead && isSameBag(e, text, e.textRead) ? text : null;
}

/** The text and the one with the same words in another order: what both get, and what the whole model gave them. */
function sameProbabilities(e) {
  const {
    record,
    twin: { source, whole, changed },
  } = e.before;
  const rowIn = t => (e.isPair || e.labels().length === 1 ? t : source.indexOf(e.record.source[t]));
  const rows = rightRows(e, changed, e.record, { rowIn });
  const apart = rightRows(e, whole, record, { rowIn }).sort(
    (a, b) => Math.abs(b.is - b.was) - Math.abs(a.is - a.was),
  )[0];
  const isSame = rows.every(({ was, is }) => Math.abs(was - is) < 1e-4);
  return `Both orders give ${isSame ? "the same" : "nearly the same"} probabilities: ${rows
    .slice(0, 5)
    .map(({ word, was, is }) => unbroken(`${word} ${percent(was)} = ${percent(is)}`))
    .join(
      ", ",
    )}.${percent(apart.was) === percent(apart.is) ? "" : ` The whole model tells them apart: ${unbroken(`${apart.word} ${percent(apart.was)} and ${percent(apart.is)}`)}.`}`;
}

/** The mean loss of the right answers in a pass. */
export function meanLoss(e, record, labels = e.labels()) {
  const losses = e.model.losses(record, labels);
  const positions = positionsIn(e, labels);
  return positions.reduce((sum, t) => sum + losses[t], 0) / positions.length;
}

/** The loss of the right answers: of the whole model, and now. */
export function lossChange(e) {
  return rivalLosses(e)
    .map(loss => loss.toFixed(4))
    .join(" → ");
}

function rivalLosses(e) {
  const { was, is, labels } = e.rivals;
  return [was, is].map(record => meanLoss(e, record, labels));
}

/** Whose answer counts as right: while parts are off the whole model's, so that losses before and now compare. */
export function rightAnswer(e) {
  const likeliest = e.structure.output.head;
  const given = e.rightClass();
  if (given >= 0)
    return `The right class, “${e.wordOf(given)}”, was given; the likeliest is “${e.wordOf(bestLabelsOf(e.record)[0])}”.${e.before ? " Of two numbers, the first is the whole model's." : ""}`;
  if (!e.before)
    return likeliest
      ? "No right answer is given here, so the model's own likeliest one counts as right."
      : "";
  const text = answerText(e, e.before.answer, e.labels());
  const right =
    text && !e.target
      ? `Right answer: “${text}”, of the whole model. Both read it, whatever they would write: teacher forcing.`
      : likeliest
        ? "The whole model's likeliest answer counts as right."
        : "";
  return `${right} Of two numbers, the first is the whole model's.`;
}

export function comparedHint(e) {
  return e.before
    ? hint("Outlined, and first of the numbers: the whole model, before parts were taken away.")
    : null;
}
