// Stages from the last state to the written words.

import { announce, h, s } from "../../../minigrad/graph/assets/dom.js";
import { describe, isThere, range } from "./derive.js";
import { answerUnit, hint, scrolling, shownToken, symbol, unitOf } from "./elements.js";
import { equation, widthOfStage } from "./equation.js";
import { tips } from "./layers.js";
import { matrix, placeKey, samePlace, tint } from "./matrix.js";
import { elementOf, inTable, largestOf, percent, precise, rowOf, withMinus } from "./numbers.js";
import { bars, compared, slider, wordRow } from "./pictures.js";
import { largestIndices } from "./state.js";
import { comparedHint } from "./whatif.js";
import { biasOf } from "./words.js";

export function stepChoice(e) {
  if (e.record.arrays.logits.shape[0] === 1) return null;
  const words = e.isPair ? e.tokensOf("target") : e.tokensOf("source");
  return [
    h("p", { class: "label" }, e.structure.output.head ? "The place:" : "Read up to:"),
    wordRow(e, words, e.step, "Step", i => e.set({ step: i })),
  ];
}

export function stepRow(e) {
  return Math.min(e.step, e.record.arrays.logits.shape[0] - 1);
}

export function logitsScreen(e) {
  const t = stepRow(e);
  const logits = rowOf(e.record.arrays.logits, t);
  const node = e.plan.get("logits");
  const tied = node.weight.includes("embedding");
  const width = e.weights[node.weight].shape[1];
  const half = width < e.record.arrays[node.from[0]].shape[1] ? width : null;
  const best = largestIndices(logits, 10);
  const row = `token:${e.isPair ? "target" : "source"}`;
  return {
    thought:
      answerUnit(e) === "class"
        ? "The state is multiplied by a learned vector for each class: the dot products are the logits."
        : `The state is multiplied by ${tied ? "the vector of each token of the vocabulary, a row of the same E that the tokens were looked up in" : "a learned vector for each token of the vocabulary"}: the dot products are the logits.`,
    body: [
      stepChoice(e),
      equation(e, [
        { name: node.from[0], rowRange: [t, 1], title: describe(e, node.from[0]), axes: [row, "width"] },
        "·",
        {
          name: node.weight,
          weight: true,
          transposed: true,
          pickRows: best,
          letter: tied ? "E" : "W",
          title: "of the likeliest",
          axes: ["width", "word:all"],
        },
        isThere(e, node.bias) ? "+ b =" : "=",
        { name: "logits", rowRange: [t, 1], pick: best, title: "logits", axes: [row, "word:all"] },
      ]),
    ],
    beside: tips(e),
    below: () => [
      matrix(e, node.from[0], { title: describe(e, node.from[0]), current: t }),
      half
        ? hint(`Of each row, the first ${half} numbers are used: positions were put beside the others.`)
        : null,
      h(
        "p",
        { class: "sign" },
        "times ",
        symbol(tied ? "E" : "W"),
        h("sup", "⊤"),
        biasOf(e, node.bias),
        " =",
      ),
      picked(e, "logits", t, best, `the ${best.length} largest logits`),
    ],
  };
}

/** Some columns of a row, as buttons that lead to their derivations. */
function picked(e, name, t, indices, title) {
  const values = e.record.arrays[name];
  const gradients = e.backward && name === "logits" ? e.gradients().activations.logits : null;
  const line = (array, gradient, label) =>
    h(
      "tr",
      h("th", { scope: "row" }, label),
      indices.map(v => {
        const place = { name, index: [t, v], gradient, weight: false };
        const x = elementOf(array, [t, v]);
        const asked = samePlace(e.quiz?.place, place);
        const td = h(
          "td",
          h(
            "button",
            {
              type: "button",
              "data-key": placeKey(place),
              "aria-pressed": samePlace(e.cell, place) ? "true" : "false",
              "aria-label": `${label} of ${shownToken(e.wordOf(v))}: ${asked ? "?" : inTable(x, gradient ? 4 : 3)}`,
              onclick: () => e.set({ cell: place }),
            },
            asked ? "?" : inTable(x, gradient ? 4 : 3),
          ),
        );
        tint(td, x, {
          largest: largestOf(indices.map(i => elementOf(array, [t, i]))),
          isProbability: name === "probabilities",
        });
        return td;
      }),
    );
  return h(
    "figure",
    h("figcaption", title),
    scrolling(
      title,
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          h(
            "tr",
            h("td"),
            indices.map(v => h("th", { scope: "col", class: "token" }, shownToken(e.wordOf(v)))),
          ),
        ),
        h(
          "tbody",
          line(values, false, e.rowLabel(name, t)),
          gradients ? line(gradients, true, "gradient") : null,
        ),
      ),
    ),
  );
}

export function probabilitiesScreen(e) {
  const t = stepRow(e);
  const { temperature, topK, topP } = e.sampling;
  const logits = rowOf(e.record.arrays.logits, t);
  const plain = rowOf(e.record.arrays.probabilities, t);
  const changed = e.model.distribution(logits, { temperature, topK, topP });
  const best = largestIndices(plain, 12);
  const isSampled = temperature !== 1 || topK > 0 || topP < 1;
  const left = changed.filter(p => p > 0).length;
  const samples = !e.structure.output.head;
  const others = plain.length - best.length;
  const rest = p => Math.max(0, 1 - best.reduce((sum, v) => sum + p[v], 0));
  return {
    thought: samples
      ? "Softmax turns the logits into probabilities. Greedy decoding takes the largest; sampling draws one at random, after temperature, top-k and top-p."
      : "Softmax turns the logits into probabilities: they are positive and add up to 1.",
    body: [
      stepChoice(e),
      h(
        "div",
        { class: samples ? "bars-beside" : null },
        h(
          "div",
          bars(
            [
              ...best.map((v, i) => {
                const [text, before] = compared(e, t, v, plain[v]);
                return [
                  shownToken(e.wordOf(v)),
                  changed[v],
                  isSampled ? `${text} → ${percent(changed[v])}` : text,
                  {
                    chosen: i === 0,
                    faded: changed[v] === 0,
                    ...before,
                    ...(isSampled ? { before: plain[v] } : {}),
                  },
                ];
              }),
              ...(others > 0
                ? [
                    [
                      `${others.toLocaleString("en")} others`,
                      rest(changed),
                      isSampled
                        ? `${percent(rest(plain))} → ${percent(rest(changed))}`
                        : percent(rest(plain)),
                      isSampled ? { before: rest(plain) } : {},
                    ],
                  ]
                : []),
            ],
            "The likeliest, with their probabilities",
          ),
          isSampled ? null : comparedHint(e),
        ),
        samples
          ? h(
              "div",
              samplingSliders(e, "sliders"),
              isSampled
                ? hint(
                    `${left.toLocaleString("en")} of ${plain.length.toLocaleString("en")} tokens can be drawn. Probabilities before → after the sliders.`,
                  )
                : null,
              h(
                "p",
                h(
                  "button",
                  { type: "button", "data-key": "draw", onclick: () => drawWord(e, changed) },
                  "Draw one",
                ),
                " ",
                e.drawn ? h("span", { class: "drawn", role: "status" }, e.drawn) : null,
              ),
            )
          : null,
      ),
      picked(
        e,
        "probabilities",
        t,
        best.slice(0, 8),
        samples ? "the same as numbers, at temperature 1" : "the same as numbers",
      ),
    ],
  };
}

/** Draw from the distribution: the number in 0..1 falls into one of its parts. */
function drawWord(e, distribution) {
  const u = Math.random();
  let sum = 0;
  let word = 0;
  for (; word < distribution.length - 1; word++) {
    sum += distribution[word];
    if (u < sum) break;
  }
  e.set({ drawn: `${u.toFixed(4)} falls on “${shownToken(e.tokenOf(word))}”` });
}

export function nextWordScreen(e) {
  const labels = e.labels();
  const first = e.isPair ? 0 : e.prompt - 1;
  const rows = range(Math.max(0, e.step - first) + 1, i => first + i);
  const end = e.step >= labels.length - 1;
  const now = e.model.distribution(e.logitsAt(stepRow(e)));
  const table = h(
    "table",
    { class: "steps" },
    h(
      "thead",
      h(
        "tr",
        ["step", "reads", "likeliest next", "takes"].map(text => h("th", { scope: "col" }, text)),
      ),
    ),
    h(
      "tbody",
      rows.map(t => {
        const p = e.model.distribution(e.logitsAt(t));
        const read = e.tokensOf(e.isPair ? "target" : "source").slice(0, t + 1);
        return h(
          "tr",
          { class: t === e.step ? "current" : null },
          h("th", { scope: "row" }, `${t - first + 1}`),
          h("td", { class: "wrap word" }, read.slice(-8).join(" ")),
          h(
            "td",
            { class: "wrap" },
            largestIndices(p, 3).map(v =>
              h(
                "span",
                { class: v === labels[t] ? "chip chosen" : "chip" },
                `${shownToken(e.tokenOf(v))} ${percent(p[v])}`,
              ),
            ),
          ),
          h("td", { class: "word" }, e.labelShown(t)),
        );
      }),
    ),
  );
  return {
    thought: e.isPair
      ? `Each new ${unitOf(e)} is appended to what the decoder has read, and it runs again, until it writes ${e.data.tokenizer.tokens[endId(e)] ?? "the end token"}. Step with N.`
      : `Each new ${unitOf(e)} is appended to the text, and the model runs again. Step with N.`,
    body: [
      scrolling("Steps", table),
      h(
        "p",
        h(
          "button",
          {
            type: "button",
            class: "primary",
            disabled: end,
            "data-key": "next-word",
            onclick: () => nextWord(e),
          },
          `Next ${unitOf(e)}`,
        ),
        " ",
        h(
          "button",
          { type: "button", "data-key": "first-word", onclick: () => e.set({ step: first }) },
          "From the start",
        ),
        end
          ? h(
              "span",
              { class: "drawn" },
              e.answer.stopped
                ? " The end token: the sentence is done."
                : " That is as far as this page goes.",
            )
          : null,
      ),
      h("p", { class: "result", dir: "auto" }, e.model.decode(labels.slice(first, e.step + 1))),
      e.target
        ? h("p", { class: "note" }, "This is the right answer that you gave, not the model's own.")
        : null,
      e.before && !e.target
        ? h(
            "p",
            { class: "note" },
            `Without the parts that are off. The whole model wrote: ${e.model.decode(e.before.answer.ids)}`,
          )
        : null,
    ],
    beside: [
      h("h3", `After reading up to “${e.rowLabel("logits", e.step)}”`),
      bars(
        largestIndices(now, 8).map(v => [
          shownToken(e.tokenOf(v)),
          now[v],
          percent(now[v]),
          { chosen: v === labels[e.step] },
        ]),
        "The likeliest next",
      ),
    ],
  };
}

export function nextWord(e) {
  const last = e.labels().length - 1;
  if (e.step < last) e.set({ step: e.step + 1 });
  announce(e.labelShown(e.step));
}

export function beamsScreen(e) {
  const found = e.model.beams(
    e.record.source.slice(0, e.prompt),
    { beams: e.beamCount, maxNew: e.isPair && !e.isLarge ? null : 8 },
    e.options,
  );
  return {
    thought: `Beam search keeps the ${e.beamCount} best beginnings at each step, not only the best one: a good text may start with a less likely ${unitOf(e)}.`,
    body: [
      slider("Beams", {
        min: 2,
        max: 5,
        step: 1,
        value: e.beamCount,
        text: `${e.beamCount}`,
        oninput: beamCount => e.set({ beamCount }),
      }),
      beamTree(e, found),
      hint(
        `Each box: a ${unitOf(e)} with its probability, and below it the sum of the log-probabilities so far. Bold: the best text.`,
      ),
      h("h3", "Texts, the best first"),
      h(
        "ol",
        found.texts.map(({ ids, score }) =>
          h(
            "li",
            { dir: "auto" },
            e.model.decode(ids),
            " ",
            h("span", { class: "quiet" }, `score ${precise(score)}`),
          ),
        ),
      ),
    ],
  };
}

/** The nodes of each step in a column, joined to the ones that they continue. */
function beamTree(e, found) {
  const steps = found.steps.slice(0, 14);
  const onBest = bestPath(e, found, steps);
  const words = steps.flat().map(node => shownToken(e.tokenOf(node.token)).slice(0, 9));
  const [w, hgt] = [Math.min(104, 8 * Math.max(...words.map(word => word.length)) + 58), 40];
  const gap = Math.max(20, Math.min(44, (widthOfStage() - 16 - w * (steps.length + 1)) / steps.length));
  const rows = Math.max(...steps.map(step => step.length));
  const x = i => 8 + (i + 1) * (w + gap);
  const y = j => 8 + j * (hgt + 10);
  const root = [8, y(0)];
  const lines = [];
  const boxes = [
    s(
      "g",
      { class: "beam best" },
      s("rect", { x: root[0], y: root[1], width: w, height: hgt, rx: 6 }),
      s("text", { x: root[0] + w / 2, y: root[1] + 25, "text-anchor": "middle" }, "start"),
    ),
  ];
  steps.forEach((step, i) =>
    step.forEach((node, j) => {
      const from = i === 0 ? root : [x(i - 1), y(node.parent)];
      const kind = onBest[i] === j ? "best" : "kept";
      lines.push(
        s("path", {
          class: `beam-line ${kind}`,
          d: `M${from[0] + w} ${from[1] + hgt / 2}C${from[0] + w + gap / 2} ${from[1] + hgt / 2} ${x(i) - gap / 2} ${y(j) + hgt / 2} ${x(i)} ${y(j) + hgt / 2}`,
        }),
      );
      boxes.push(
        s(
          "g",
          { class: `beam ${kind}` },
          s("rect", { x: x(i), y: y(j), width: w, height: hgt, rx: 6 }),
          s(
            "text",
            { x: x(i) + w / 2, y: y(j) + 17, "text-anchor": "middle", class: "beam-word" },
            `${shownToken(e.tokenOf(node.token)).slice(0, 9)} ${percent(Math.exp(node.logProbability))}`,
          ),
          s(
            "text",
            { x: x(i) + w / 2, y: y(j) + 33, "text-anchor": "middle" },
            withMinus(node.score.toFixed(3)),
          ),
        ),
      );
    }),
  );
  const width = x(steps.length - 1) + w + 8;
  const height = y(rows - 1) + hgt + 8;
  return scrolling(
    "Tree of beams",
    s(
      "svg",
      {
        class: "beams",
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: "img",
        "aria-label": `Tree of ${e.beamCount} beams over ${steps.length} steps; the best sentence is ${e.model.decode(found.best)}`,
      },
      lines,
      boxes,
    ),
  );
}

/** Which node of each step is on the way to the best sentence. */
function bestPath(e, found, steps) {
  const ids = [...found.best, endId(e)];
  const path = [];
  let parent = -1;
  steps.forEach((step, i) => {
    const j = step.findIndex(node => (i === 0 || node.parent === parent) && node.token === ids[i]);
    if (path.length === i && j >= 0) {
      path.push(j);
      parent = j;
    }
  });
  return path;
}

function endId(e) {
  return e.data.tokenizer.end_id;
}

/** The next words, drawn at the temperature of the slider, are appended to the text. */
export function continueText(e) {
  const source = e.record.source.slice(0, e.prompt);
  const most = e.model.family.maxLength(e.data.config) ?? Infinity;
  const maxNew = Math.min(e.mostWritten(source), most - source.length);
  if (maxNew < 1) return e.set({ notice: "The text is as long as this model can read." });
  const seed = Math.floor(2 ** 32 * Math.random());
  const { ids } = e.model.generate(source, { ...e.sampling, sample: true, seed, maxNew }, e.options);
  if (!ids.length) return e.set({ notice: "Here the model ends the text." });
  const added = e.model.decode([...source, ...ids]).slice(e.model.decode(source).length);
  e.set({ text: e.textRead + added });
  announce(added);
}

export function temperatureSlider(e) {
  const { temperature } = e.sampling;
  return slider("Temperature", {
    min: 0.1,
    max: 3,
    step: 0.1,
    value: temperature,
    text: temperature.toFixed(1),
    oninput: value => e.set({ sampling: { ...e.sampling, temperature: value } }),
  });
}

/** Temperature, top-k and top-p of the answer. */
export function samplingSliders(e, look = "sampling") {
  const { topK, topP } = e.sampling;
  const change = changes => e.set({ sampling: { ...e.sampling, ...changes } });
  return h(
    "div",
    { class: look },
    temperatureSlider(e),
    slider("Top-k", {
      min: 0,
      max: 20,
      step: 1,
      value: topK,
      text: topK ? `${topK}` : "all",
      oninput: value => change({ topK: value }),
    }),
    slider("Top-p", {
      min: 0.05,
      max: 1,
      step: 0.05,
      value: topP,
      text: topP < 1 ? topP.toFixed(2) : "all",
      oninput: value => change({ topP: value }),
    }),
  );
}
