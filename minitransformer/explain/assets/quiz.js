// "Quiz me": what would happen without a part, which way would a number move, and what is a number that is hidden. The
// answers are what the model then computes.

import { announce } from "../../../minigrad/graph/assets/dom.js";
import { isRight, parseTyped, questionForm } from "../../../minigrad/graph/assets/question.js";
import { currentRow, isUnscaled, partOf } from "./attention.js";
import { range } from "./derive.js";
import { answerUnit, shownToken, titleOfPath } from "./elements.js";
import { currentToken, pictured } from "./image.js";
import { valueAt } from "./inspector.js";
import { createModel } from "./model/model.js";
import { elementOf, norm, precise, rowOf } from "./numbers.js";
import { stepRow } from "./output.js";
import { largestIndices } from "./state.js";

const QUESTIONS = {
  positions: [positionsQuestion],
  attention: [positionsQuestion],
  softmax: [positionsQuestion],
  looks: [headQuestion, positionsQuestion],
  scale: [scaleQuestion],
  heads: [headQuestion],
  alignment: [headQuestion],
  "cross-attention": [headQuestion],
  logits: [stepQuestion],
  loss: [stepQuestion],
  probabilities: [stepQuestion, temperatureQuestion],
};

/** Asks one question after the other: those of the stage, then for a number, which each stage has. */
export function startQuiz(e) {
  const makers = [...(QUESTIONS[e.screen] ?? []), numberQuestion];
  const { turn } = e;
  e.turn += 1;
  for (const i of makers.keys()) {
    const quiz = makers[(turn + i) % makers.length](e);
    if (!quiz) continue;
    e.set({ quiz, cell: quiz.place ?? null });
    break;
  }
  document.querySelector("td.asked")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.querySelector("#inspector .question :is(input, button)")?.focus({ preventScroll: true });
}

export function quizForm(e) {
  return questionForm(e.quiz, "answer", choice => pictured(e, choice));
}

/** The pass over the same tokens with other options. */
function passWith(e, options) {
  const { source, target } = e.record;
  return e.model.run({ source, target }, { ...e.options, ...options }).arrays;
}

/** A row of an attention in which at least two keys are seen: the one that is looked at, or the last. */
function queryRow(e, weights) {
  const t = Math.min(e.isImage ? currentToken(e) : (e.query ?? currentRow(e) ?? 0), weights.shape[1] - 1);
  return range(weights.shape[2], u => elementOf(weights, [e.head, t, u])).filter(w => w > 0).length > 1
    ? t
    : weights.shape[1] - 1;
}

function positionsQuestion(e) {
  if (!e.options.positions) return null;
  const name = partOf(e, "weights");
  const [before, after] = [e.record.arrays[name], passWith(e, { positions: false })[name]];
  const t = queryRow(e, before);
  const keys = range(before.shape[2], u => ({
    u,
    was: elementOf(before, [e.head, t, u]),
    is: elementOf(after, [e.head, t, u]),
  })).filter(key => key.was > 0 || key.is > 0);
  keys.sort((a, b) => b.is - b.was - (a.is - a.was));
  if (keys.length < 2 || !(keys[0].is - keys[0].was > 0.001)) return null;
  const shown = [keys[0], ...keys.slice(-3).filter(key => key !== keys[0])].sort((a, b) => a.u - b.u);
  return {
    text: `If positions are switched off, which of these gets more attention from “${e.rowLabel(name, t)}” in head ${e.head + 1} of ${titleOfPath(e.path)}?`,
    choices: shown.map(({ u }) => e.columnLabel(name, u)),
    right: shown.indexOf(keys[0]),
    why: shown
      .map(({ u, was, is }) => `${e.columnLabel(name, u)}: ${was.toFixed(3)} → ${is.toFixed(3)}`)
      .join("; "),
  };
}

function scaleQuestion(e) {
  if (!e.options.scale || isUnscaled(e)) return null;
  const name = partOf(e, "weights");
  const [before, after] = [e.record.arrays[name], passWith(e, { scale: false })[name]];
  const t = queryRow(e, before);
  const largest = array => Math.max(...range(array.shape[2], u => elementOf(array, [e.head, t, u])));
  const [was, is] = [largest(before), largest(after)];
  return Math.abs(was - is) < 1e-4
    ? null
    : {
        text: `If the scores are not divided by √d, does the largest weight of “${e.rowLabel(name, t)}” become larger or smaller?`,
        choices: ["larger", "smaller"],
        right: is > was ? 0 : 1,
        why: `It goes from ${was.toFixed(3)} to ${is.toFixed(3)}.`,
      };
}

function headQuestion(e) {
  const path = e.screen === "alignment" ? (e.alignPath ?? e.attentionPaths().at(-1)) : e.path;
  const off = e.options.ablated[path] ?? [];
  const heads = range(e.stackOf(path).heads, i => i)
    .filter(i => !off.includes(i))
    .slice(0, 4);
  if (heads.length < 2) return null;
  const t = stepRow(e);
  const id = e.labels()[t];
  const share = arrays => elementOf(arrays.probabilities, [t, id]);
  const left = heads.map(i => share(passWith(e, { ablated: { ...e.options.ablated, [path]: [...off, i] } })));
  const right = left.indexOf(Math.min(...left));
  return {
    text: `Which of these heads of ${titleOfPath(path)} does the model need most to say “${e.labelShown(t)}”: without which one is it least likely?`,
    choices: heads.map(i => `head ${i + 1}`),
    right,
    why: `With all of them, ${(100 * share(e.record.arrays)).toFixed(2)} %; without ${heads.map((i, n) => `head ${i + 1}: ${(100 * left[n]).toFixed(2)} %`).join(", ")}.`,
  };
}

const STEP_LENGTH = 0.05; // of all weights together

/** The logits after one step of all weights against the gradient. */
function logitsAfterStep(e) {
  const { weights } = e.gradients();
  const length = Math.hypot(...Object.values(weights).map(({ data }) => norm(data))) || 1;
  const stepped = Object.fromEntries(
    Object.entries(e.weights).map(([name, { shape, data }]) => [
      name,
      { shape, data: data.map((x, i) => x - ((weights[name]?.data[i] ?? 0) * STEP_LENGTH) / length) },
    ]),
  );
  const { source, target } = e.record;
  return createModel({ ...e.data, weights: stepped }).run({ source, target }, e.options).arrays.logits;
}

function stepQuestion(e) {
  const t = e.lossPositions().includes(stepRow(e)) ? stepRow(e) : e.lossPositions()[0];
  const [row, after] = [rowOf(e.record.arrays.logits, t), rowOf(logitsAfterStep(e), t)];
  const label = e.labels()[t];
  const others = largestIndices(row, 4).filter(v => v !== label);
  const v = [label, ...others][e.turn % (1 + others.length)];
  return Math.abs(after[v] - row[v]) < 1e-5
    ? null
    : {
        text: `The right ${answerUnit(e)} here is “${e.labelShown(t)}”. All weights take a small step against the gradient of the loss. Which way does the logit of “${shownToken(e.wordOf(v))}” move?`,
        choices: ["up", "down"],
        right: after[v] > row[v] ? 0 : 1,
        why: `It goes from ${precise(row[v])} to ${precise(after[v])}; the gradient of this logit is ${precise(rowOf(e.gradients().activations.logits, t)[v])}.`,
      };
}

function temperatureQuestion(e) {
  const row = rowOf(e.record.arrays.logits, stepRow(e));
  const [was, is] = [1, 2].map(temperature => e.model.distribution(row, { temperature, topK: 0, topP: 1 }));
  const best = largestIndices(row, 4);
  const v = best[e.turn % best.length];
  return {
    text: `If the logits are divided by a temperature of 2, does “${shownToken(e.wordOf(v))}” become more or less likely?`,
    choices: ["more", "less"],
    right: is[v] > was[v] ? 0 : 1,
    why: `Its probability goes from ${(100 * was[v]).toPrecision(3)} % to ${(100 * is[v]).toPrecision(3)} %.`,
  };
}

/** A number of this stage is hidden, and its factors are shown. */
function numberQuestion(e) {
  if (!e.numbers && document.querySelector('#screen [data-key="numbers"]')) e.set({ numbers: true }); // it is one of them
  const cells = [...document.querySelectorAll("#screen table.numbers [data-key]")].filter(cell =>
    /[1-9]/.test(cell.textContent),
  ); // not those of 0 and −∞
  const askable = cells
    .map(cell => readKey(cell.dataset.key))
    .filter(place => !place.weight && !["lookup", "pixels", "concat"].includes(e.plan.get(place.name)?.kind));
  if (!askable.length) askable.push({ name: "logits", index: [stepRow(e), e.labels()[stepRow(e)]] }); // of a picture
  const place = askable[Math.floor(Math.random() * askable.length)];
  const right = valueAt(e, place);
  return {
    place,
    text: "What is this number?",
    right: precise(right),
    isRight: typed => isRight(parseTyped(typed), right),
    hint: typed =>
      Number.isFinite(parseTyped(typed) ?? NaN)
        ? parseTyped(typed) > right
          ? "It is smaller."
          : "It is larger."
        : "Type a number, such as 0.25.",
    reveal: said => {
      e.set({ quiz: null });
      announce(said);
    },
  };
}

function readKey(key) {
  const [kind, name, index] = key.split(":");
  return { name, index: index.split(",").map(Number), gradient: kind[1] === "g", weight: kind[0] === "w" };
}
