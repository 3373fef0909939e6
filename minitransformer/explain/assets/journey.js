// The backward pass on the picture: one step at a time, with its formula and numbers.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { describe, range } from "./derive.js";
import { answerUnit, shownToken } from "./elements.js";
import { deriveGradient } from "./gradients.js";
import { valueAt } from "./inspector.js";
import { placeKey, tint } from "./matrix.js";
import { brief, elementOf, percent, precise, rowOf } from "./numbers.js";
import { stepRow } from "./output.js";
import { choice } from "./pictures.js";
import { stepIndex } from "./play.js";
import { legend, pictureOf } from "./stage.js";
import { gradientPicture } from "./stagepaint.js";
import { backSentence } from "./stagewords.js";
import { largestIndices } from "./state.js";
import { vanishingText } from "./vanishing.js";

const SURE = 0.98; // a right answer of this probability sends back next to no gradient

export function backwardScreen(e) {
  return { picture: pictureOf(e, true) };
}

/** The step that is shown: the slow walk's, or the one that the time line is at. */
export function journeyIndex(e, view) {
  const first = view.steps.findIndex(step => step.isBack);
  const at = stepIndex(view, e.play);
  if (at !== null && at >= first) return at;
  const count = view.steps.length - first;
  return first + Math.min(count - 1, Math.max(0, Math.floor(2 * (e.play.at - 0.5) * count)));
}

export function journeyStep(e, view) {
  const first = view.steps.findIndex(step => step.isBack);
  const i = journeyIndex(e, view);
  const { block } = view.steps[i];
  const { loss } = e.gradients();
  view.back ??= gradientPicture(e, view);
  return [
    targetChoice(e),
    h(
      "p",
      { class: "thought", role: "status" },
      h(
        "b",
        `${i - first + 1} of ${view.steps.length - first}: ${block.id === "probabilities" ? "The loss" : block.label}. `,
      ),
      backSentence(e, block),
    ),
    block.id === "probabilities" ? [lossNumbers(e, loss), vanishingText(e, view)] : pullNumbers(e, block),
    legend(e, view, true),
  ];
}

/** The loss as a formula, for the word that costs most. */
function lossNumbers(e, loss) {
  const { losses } = e.gradients();
  const labels = e.labels();
  const t = e
    .lossPositions()
    .reduce((most, each) => (losses[each] > losses[most] ? each : most), e.lossPositions()[0]);
  const p = elementOf(e.record.arrays.probabilities, [t, labels[t]]);
  const place_ = { name: "logits", index: [t, labels[t]], gradient: true, weight: false };
  return [
    h(
      "p",
      { class: "numbers-line" },
      "loss = ",
      h("b", precise(loss)),
      `${e.data.smoothing ? ", without label smoothing" : ""}, the mean of ${e.lossPositions().length}; most at “${shownToken(e.wordOf(labels[t]))}”: −log ${brief(p)} = ${brief(losses[t])}`,
    ),
    h(
      "p",
      { class: "numbers-line" },
      `∂loss/∂logit = (p − y) / N = (${brief(p)} − 1) / ${e.lossPositions().length} = `,
      cellLink(e, place_),
    ),
  ];
}

function cellLink(e, place_) {
  return h(
    "button",
    {
      type: "button",
      class: "link",
      "data-key": `step:${placeKey(place_)}`,
      onclick: () => e.set({ cell: place_ }),
    },
    brief(valueAt(e, place_)),
  );
}

/** Of the largest gradient of a block: what each step above sent back to it. */
function pullNumbers(e, block) {
  const array = e.gradients().activations[block.array];
  const width = array.shape.at(-1);
  let at = 0;
  array.data.forEach((x, i) => {
    if (Math.abs(x) > Math.abs(array.data[at])) at = i;
  });
  const index = [Math.floor(at / width), at % width];
  const { parts } = deriveGradient(e, block.array, index);
  const place_ = { name: block.array, index, gradient: true, weight: false };
  const largest = Math.max(...parts.map(part => Math.abs(part.value))) || 1;
  return [
    h(
      "p",
      { class: "numbers-line" },
      `The largest, at “${e.rowLabel(block.array, index[0])}”, number ${index[1]}: `,
      cellLink(e, place_),
      parts.length > 1 ? " =" : "",
    ),
    h(
      "div",
      { class: "scroll sent", tabindex: 0, role: "region", "aria-label": "What is sent back" },
      h(
        "table",
        { class: "pulls" },
        h(
          "tbody",
          parts.map(part => {
            const td = h("td", { class: "amount" }, brief(part.value));
            tint(td, part.value, { largest });
            return h(
              "tr",
              h("th", { scope: "row" }, describe(e, part.to)),
              td,
              h("td", { class: "wrap" }, part.equation),
            );
          }),
        ),
      ),
    ),
  ];
}

// ------------------------------------------------------------ which answer counts as right

/** On this stage, a sure answer of the model's own gives way to a doubtful one, whose gradients are visible. */
export function chooseTarget(e) {
  const isHere = e.screen === "backward";
  if (!isHere && e.wanted) e.want(null);
  if (!isHere || e.target || e.wanted) return;
  const labels = e.labels();
  const positions = e.lossPositions();
  const row = t => rowOf(e.record.arrays.probabilities, t);
  if (positions.some(t => row(t)[labels[t]] < SURE)) return;
  const seconds = positions.map(t => [t, largestIndices(row(t), 2)[1]]);
  const [t, id] = seconds.reduce((best, each) =>
    row(each[0])[each[1]] > row(best[0])[best[1]] ? each : best,
  );
  e.want({ t, id, isGuess: true });
}

/** The place whose right answer one can change: that of the other answer, or the one that is looked at. */
export function targetPlace(e) {
  const positions = e.lossPositions();
  return e.wanted?.t ?? (positions.includes(stepRow(e)) ? stepRow(e) : positions[0]);
}

/** What counts as right at a place: any word of the vocabulary. */
function targetChoice(e) {
  const t = targetPlace(e);
  const own = e.found.labels[t];
  const said = shownToken(e.wordOf(own));
  const words = e.tokensOf(e.isPair ? "target" : "source");
  const isOneRow = e.record.arrays.logits.shape[0] === 1;
  const want = (place, id) => e.set({ step: place, wanted: { t: place, id } });
  return h(
    "div",
    { class: "why" },
    e.wanted?.isGuess
      ? h(
          "p",
          `The model is sure of “${said}”, so its gradients would be nearly 0. Here they show what would make another ${answerUnit(e)} likelier.`,
        )
      : null,
    h(
      "div",
      { class: "right-answer" },
      isOneRow
        ? null
        : choice(
            e.structure.output.head ? "Right at" : "Right after",
            e.lossPositions().map(i => [`${i}`, words[i]]),
            `${t}`,
            i => want(Number(i), e.found.labels[i]),
          ),
      wordField(e, t, isOneRow ? "Right is" : "is", id => want(t, id)),
      e.labels()[t] !== own
        ? h(
            "button",
            { type: "button", class: "link", "data-key": "own-answer", onclick: () => want(t, own) },
            `Back to “${said}”`,
          )
        : e.isPair
          ? h("a", { href: "#loss" }, "A whole answer")
          : null,
    ),
  );
}

/** A field for a word of the vocabulary, with the likeliest that contain what is typed. */
export function wordField(e, t, label, take, shown = shownToken(e.wordOf(e.labels()[t]))) {
  return h(
    "label",
    { class: "word-field" },
    label,
    h("input", {
      list: "right-words",
      value: shown,
      size: 12,
      "data-key": "right",
      dir: "auto",
      autocomplete: "off",
      spellcheck: "false",
      onfocus: event => {
        event.target.select();
        event.target.list.replaceChildren(...wordOptions(e, t, ""));
      },
      oninput: event => {
        const { value, list } = event.target;
        if (vocabularyOf(e).has(value)) take(vocabularyOf(e).get(value));
        else list.replaceChildren(...wordOptions(e, t, value));
      },
      onchange: event => {
        const { value } = event.target;
        const count = e.record.arrays.logits.shape[1].toLocaleString("en");
        if (!vocabularyOf(e).has(value))
          e.set({ notice: `The model has no ${answerUnit(e)} “${value}”: it knows ${count}.` });
      },
    }),
    h(
      "datalist",
      { id: "right-words" },
      document.activeElement?.dataset.key === "right" ? wordOptions(e, t, "") : null,
    ),
  ); // sorting takes long
}

const MOST_OPTIONS = 20;
let vocabulary = null;

/** The id of each word: as it is, as it is shown, or without the space before it. */
function vocabularyOf(e) {
  if (vocabulary) return vocabulary;
  vocabulary = new Map();
  const words = range(e.record.arrays.logits.shape[1], id => e.wordOf(id));
  for (const write of [word => word, shownToken, word => word.trim()]) {
    words.forEach((word, id) => {
      const name = write(word);
      if (name && !vocabulary.has(name)) vocabulary.set(name, id);
    });
  }
  return vocabulary;
}

/** Of the words that contain what is typed, the likeliest here. */
function wordOptions(e, t, typed) {
  const p = rowOf(e.record.arrays.probabilities, t);
  const like = shownToken(typed).toLowerCase();
  const found = range(p.length, id => id).filter(
    id => !typed || shownToken(e.wordOf(id)).toLowerCase().includes(like),
  );
  return found
    .sort((a, b) => p[b] - p[a])
    .slice(0, MOST_OPTIONS)
    .map(id => h("option", { value: shownToken(e.wordOf(id)) }, percent(p[id])));
}
