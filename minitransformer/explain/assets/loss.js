// Stages of the backward pass: the loss, what each loss depends on, and how far the gradients reach.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { range } from "./derive.js";
import { answerUnit, hint, scrolling, shownToken } from "./elements.js";
import { imageCanvas, pictured } from "./image.js";
import { plainTable, windowStart } from "./matrix.js";
import { decimalsFor, inTable, largestOf, norm, precise, rowOf } from "./numbers.js";
import { stepChoice, stepRow } from "./output.js";
import { bars, compared, shares } from "./pictures.js";
import { largestIndices } from "./state.js";
import { meanLoss, rightAnswer } from "./whatif.js";

export function lossScreen(e) {
  const { losses, loss } = e.gradients();
  const labels = e.labels();
  const before = e.before && e.model.losses(e.before.record, labels);
  const { data, shape } = e.record.arrays.probabilities;
  const chosen = e.lossPositions();
  const toggle = t => {
    const next = chosen.includes(t)
      ? chosen.filter(each => each !== t)
      : [...chosen, t].sort((a, b) => a - b);
    e.set({ chosen: next.length ? next : null });
  };
  const words = e.tokensOf(e.isPair ? "target" : "source");
  const right = answerUnit(e);
  return {
    thought: `The loss of each prediction is −log of the probability that the right ${right} got. Training moves every weight a little against the gradient of the mean loss.`,
    body: [
      h("p", { class: "formula" }, `loss = −log p(right ${right}),   ∂loss / ∂logits = (p − y) / N`),
      e.data.smoothing
        ? hint(
            `In training the labels were smoothed by ${e.data.smoothing}; this loss is without, as val_loss and the curves are.`,
          )
        : null,
      rightAnswer(e) ? h("p", { class: "hint right-answer" }, rightAnswer(e)) : null,
      h(
        "div",
        { class: "halves" },
        h(
          "div",
          scrolling(
            "Losses",
            h(
              "table",
              { class: "steps" },
              h(
                "thead",
                h(
                  "tr",
                  [
                    "counts",
                    e.structure.output.head ? "at" : "after",
                    `right ${right}`,
                    "its probability",
                    "−log p",
                  ].map(text => h("th", { scope: "col" }, text)),
                ),
              ),
              h(
                "tbody",
                labels.map((id, t) =>
                  h(
                    "tr",
                    { class: t === e.step ? "current" : null },
                    h(
                      "td",
                      h("input", {
                        type: "checkbox",
                        checked: chosen.includes(t),
                        "aria-label": `The loss of ${words[t]} counts`,
                        "data-key": `counts:${t}`,
                        onchange: () => toggle(t),
                      }),
                    ),
                    h("th", { scope: "row" }, words[t] ?? "input"),
                    h("td", { class: "word" }, e.labelShown(t)),
                    h("td", compared(e, t, id, data[t * shape[1] + id])[0]),
                    h(
                      "td",
                      before ? h("span", { class: "was" }, `${before[t].toFixed(4)} → `) : null,
                      h("span", { class: "loss" }, losses[t].toFixed(4)),
                    ),
                  ),
                ),
              ),
            ),
          ),
          h(
            "p",
            `Mean of ${chosen.length}: `,
            before ? h("span", { class: "was" }, `${precise(meanLoss(e, e.before.record))} → `) : null,
            h("b", { class: "mean-loss" }, precise(loss)),
          ),
          e.isPair ? targetForm(e) : null,
        ),
        h(
          "section",
          h("h3", "Where the gradient starts"),
          h(
            "p",
            `At the logits: a step against the gradient raises the logit of the right ${right}, whose gradient is negative, and lowers each of the others in proportion to its probability.`,
          ),
          stepChoice(e),
          startBars(e),
        ),
      ),
    ],
  };
}

/** Another right answer: the model is asked how likely it finds that. */
function targetForm(e) {
  return h(
    "form",
    {
      class: "target",
      onsubmit: event => {
        event.preventDefault();
        e.set({ target: new FormData(event.target).get("target").trim() || null });
      },
    },
    h(
      "label",
      "The right answer ",
      h("input", {
        name: "target",
        value: e.target ?? "",
        placeholder: e.model.decode(e.labels()),
        "data-key": "target",
        dir: "auto",
        autocomplete: "off",
      }),
    ),
    h("button", { type: "submit", "data-key": "target-go" }, "Use it"),
    unknownNote(e),
    h(
      "span",
      { class: "hint" },
      `Left empty: the ${e.before ? "whole model's" : "model's own"} answer. Give another one, and see how the gradients grow.`,
    ),
  );
}

/** Words of the answer that the model does not know. */
function unknownNote(e) {
  const { unknown, pieces } = e.target ? e.model.tokenizeTarget(e.target) : { unknown: [] };
  return unknown.length
    ? h("span", { class: "note" }, `Not in the vocabulary: ${unknown.map(i => pieces[i]).join(", ")}`)
    : null;
}

function startBars(e) {
  const t = stepRow(e);
  const g = rowOf(e.gradients().activations.logits, t);
  const order = Array.from(g.keys())
    .sort((a, b) => Math.abs(g[b]) - Math.abs(g[a]))
    .slice(0, 8);
  const largest = Math.max(...order.map(v => Math.abs(g[v]))) || 1;
  return bars(
    order.map(v => [
      shownToken(e.wordOf(v)),
      g[v] / largest,
      inTable(g[v], decimalsFor(largest)),
      { chosen: g[v] < 0 },
    ]),
    "Gradient of the logits",
    true,
  );
}

const MOST_PULLS = 12; // losses of a long text that are shown at once: each is a backward pass

/** Of the one prediction of a classifier: what is read, by the gradient's length; and at the side as bars. */
function pullOfClass(e, sizes, tokens, right) {
  const largest = largestOf(sizes);
  const shown = largestIndices(sizes, MOST_PULLS).sort((a, b) => a - b);
  const which =
    shown.length < tokens.length ? `the ${shown.length} longest of ${tokens.length}` : "at each input";
  const label = `The image: the brighter a patch, the more the loss of ${right} depends on it`;
  const text = x => inTable(x, decimalsFor(largest));
  return {
    body: [
      e.isImage ? imageCanvas(e, 220, { weights: sizes, label }) : shares(e, tokens, sizes, text, largest),
      hint(`The stronger the orange, the more the loss of ${right} depends on it.`),
    ],
    beside: [
      h("h3", `Gradients, ${which}`),
      bars(
        shown.map(u => [pictured(e, tokens[u]), sizes[u] / largest, text(sizes[u])]),
        `Loss of ${right}`,
      ),
    ],
  };
}

const PULLS_AT_ONCE = 60e6; // products of two numbers: what a keystroke has time for

/**
 * Of the loss of each of these predictions alone, the lengths of its gradients at the `inputs`, by their names.
 * Of a large model, those for which there was no time yet are null; they follow, and the stage is shown again.
 */
function pullsOf(e, inputs, predictions) {
  const labels = e.labels();
  if (e.pulls?.record !== e.record || String(e.pulls.labels) !== String(labels))
    e.pulls = { record: e.record, labels, found: new Map() };
  const { found } = e.pulls;
  const atOnce = Math.max(1, Math.floor(PULLS_AT_ONCE / (e.size * e.record.source.length)));
  const missing = predictions.filter(t => !found.has(t));
  for (const t of missing.slice(0, atOnce)) {
    const { activations } = e.model.backward(e.record, { labels, positions: [t] });
    found.set(
      t,
      Object.fromEntries(
        inputs.map(name => [name, range(activations[name].shape[0], u => norm(rowOf(activations[name], u)))]),
      ),
    );
  }
  clearTimeout(e.pullTimer);
  if (missing.length > atOnce) e.pullTimer = setTimeout(() => e.screen === "pull" && e.show(), 30); // after a frame, or a keystroke
  return predictions.map(t => found.get(t) ?? null);
}

/** For the loss of each prediction: how long the gradient is at each token that was read. */
export function pullScreen(e) {
  const inputs = e.structure.stacks.map(stack => `${stack.name}.input`);
  const labels = e.labels();
  const count = e.record.arrays.logits.shape[0];
  const words = e.tokensOf(e.isPair ? "target" : "source");
  const hasHead = Boolean(e.structure.output.head);
  const predicted = t => shownToken(e.wordOf(labels[t]) ?? words[t]);
  const most = count > 24 ? MOST_PULLS : count;
  const top = windowStart(e, `rows ${count}`, count - most);
  const pulls = pullsOf(
    e,
    inputs,
    range(most, i => top + i),
  );
  const meaning = "the longer the gradient, the more a small change of that input changes";
  if (hasHead && count === 1) {
    const thought = `The numbers are the lengths of the loss's gradients at the input vectors: ${meaning} the loss.`;
    return { thought, ...pullOfClass(e, pulls[0][inputs[0]], e.tokensOf("source"), predicted(0)) };
  }
  return {
    thought: `Each row is the loss of one prediction alone. Its numbers are the lengths of its gradients at the input vectors: ${meaning} this loss.`,
    body: h(
      "div",
      { class: "columns" },
      inputs.map((name, i) => {
        const columns = e.tokensOf(e.sideOfRows(name));
        const sizes = pulls.map(pull => pull?.[name] ?? columns.map(() => NaN));
        const largest = largestOf(sizes.flat());
        return h(
          "figure",
          h(
            "figcaption",
            e.isPair ? ["At the inputs of the encoder", "At the inputs of the decoder"][i] : "At the inputs",
          ),
          plainTable(e, {
            title: `Pull on ${name}`,
            corner: "loss of",
            rows: range(count, t => (hasHead && count > 1 ? `${predicted(t)} at ${words[t]}` : predicted(t))),
            columns,
            most,
            value: (t, u) => sizes[t - top][u],
            text: x => (Number.isNaN(x) ? "…" : inTable(x, decimalsFor(largest))),
            look: { largest },
          }),
        );
      }),
    ),
    beside: e.isPair || count > 12 ? null : pullOfAll(e, inputs[0]),
  };
}

/** How long the gradient of the mean loss is at each token. */
function pullOfAll(e, input) {
  const words = e.tokensOf(e.sideOfRows(input));
  const lengths = words.map((_, u) => norm(rowOf(e.gradients().activations[input], u)));
  const largest = Math.max(...lengths) || 1;
  return [
    h("h3", "The mean of all losses"),
    bars(
      words.map((word, u) => [word, lengths[u] / largest, inTable(lengths[u], decimalsFor(largest))]),
      "The mean of all losses",
    ),
  ];
}
