// Where the gradient is small: its length at each block, and the attention whose softmax passes on the least.

import { h, s } from "../../../minigrad/graph/assets/dom.js";
import { range } from "./derive.js";
import { headsOf } from "./elements.js";
import { brief, norm, rowOf } from "./numbers.js";
import { stackBlocks } from "./stageblocks.js";
import { isOff } from "./state.js";

const LENGTHS = 2; // powers of ten of the bars
const SATURATED = 0.99; // a row of attention with a weight above passes on next to no gradient

/** The length (Euclidean norm) of a block's gradient; 0 if it gets none. */
function gradientLength(e, array) {
  const found = e.gradients().activations[array];
  return found ? norm(found.data) : 0;
}

/** The blocks with the smallest and with the largest gradient: { label, length }. */
function extremes(e, view) {
  const pass = e.gradients();
  if (view.extremes?.pass !== pass) view.extremes = { pass, ...findExtremes(e, pass.activations) };
  return view.extremes;
}

function findExtremes(e, known) {
  const lengths = e.structure.stacks
    .flatMap(stack => stackBlocks(e, stack, { isCompact: false, layer: null })) // also those that the picture leaves out
    .filter(({ array }) => array in known)
    .map(({ array, label }) => ({ label, length: norm(known[array].data) }));
  lengths.sort((a, b) => a.length - b.length);
  return { smallest: lengths[0], largest: lengths.at(-1) };
}

/** The head whose scores get the smallest gradient, and how many of its rows are saturated; null without attention. */
function leastThroughSoftmax(e) {
  const { activations } = e.gradients();
  const found = e.attentionPaths().flatMap(path => {
    const [weights, scores] = [e.record.arrays[`${path}.weights`], activations[`${path}.scores`]];
    if (!scores) return [];
    const [heads, rows, columns] = weights.shape;
    return range(heads, head => {
      if (isOff(e, path, head)) return null;
      const size = rows * columns;
      const length = norm(scores.data.subarray(head * size, (head + 1) * size));
      const all = range(rows, t => rowOf(weights, head * rows + t)).filter(
        row => row.filter(p => p > 0).length > 1,
      );
      return {
        path,
        head,
        length,
        rows: all.length,
        saturated: all.filter(row => Math.max(...row) > SATURATED).length,
      };
    }).filter(Boolean);
  });
  return found.reduce((least, each) => (least && least.length <= each.length ? least : each), null);
}

/** Two sentences: where the gradient is smallest, and through which softmax it hardly passes. */
export function vanishingText(e, view) {
  const { smallest, largest } = extremes(e, view);
  if (!smallest || !(smallest.length > 0)) return null;
  const times = largest.length / smallest.length;
  const least = leastThroughSoftmax(e);
  return h(
    "p",
    { class: "vanishing" },
    h("b", "Smallest gradient: "),
    `${smallest.label}: length ${brief(smallest.length)}, while the largest is ${times < 10 ? times.toFixed(1) : Math.round(times)} times as long.`,
    least && [
      " Softmax passes least to ",
      h(
        "a",
        { href: `#softmax:${least.path}`, onclick: () => e.set({ head: least.head, backward: true }) },
        `the scores of ${headsOf(e, least.path, [least.head])}`,
      ),
      `: ${brief(least.length)}${least.saturated ? `, as ${least.saturated} of ${least.rows} queries with several keys ${least.saturated === 1 ? "is" : "are"} saturated (a weight above ${SATURATED})` : ""}.`,
    ],
  );
}

/** A bar in a block's label: the length of its gradient, by powers of ten below the largest. */
export function lengthBar(e, view, block, { x, y, width }) {
  if (!block.array || e.screen !== "backward" || !(block.array in e.gradients().activations)) return null;
  const length = gradientLength(e, block.array);
  const share = Math.max(0, 1 + Math.log10(length / extremes(e, view).largest.length) / LENGTHS);
  return [
    s("title", `${block.label}: the gradient's length is ${brief(length)}`),
    s("rect", {
      class: "length",
      "data-length": block.array,
      x,
      y,
      width: Math.max(1, width * share),
      height: 4,
    }),
  ];
}
