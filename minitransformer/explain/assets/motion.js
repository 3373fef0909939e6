// Equations of attention that move: a row sweeps over the keys, scores grow, the mask falls, softmax squeezes, values
// add up. In between only colours move: every number that is shown is the engine's.

import { partOf } from "./attention.js";
import { range } from "./derive.js";
import { isPointedByReader, paintCells, pointAlong, unpoint } from "./equation.js";
import { elementOf } from "./numbers.js";
import { moveFor, prefersStill } from "./play.js";

/** The arrays that come about on a stage, one after the other; those of a list together. */
const RESULTS = {
  scores: [["scores"]],
  scale: [["scaled"]],
  mask: [["M", "masked"]],
  softmax: [["weights"]],
  "weighted-sum": [["heads"]],
  attention: [["scores"], ["weights"], ["heads"]],
};
RESULTS["cross-attention"] = RESULTS.attention;

export function canMove(e) {
  return e.screen in RESULTS && !prefersStill();
}

/** Plays the equation of this stage once, unless the reader wants no motion; what one points at or selects ends it. */
export function moveEquation(e) {
  if (!canMove(e)) return;
  const turns = RESULTS[e.screen];
  const rows = Math.max(...turns.flat().flatMap(part => canvasesOf(part).map(({ height }) => height)));
  const show = share => {
    const isOver = share === 1 || e.cell || isPointedByReader();
    turns.forEach((parts, i) => {
      for (const canvas of parts.flatMap(canvasesOf))
        showUpTo(e, canvas, isOver ? 1 : within(share * turns.length - i));
    });
    if (isOver) unpoint(e, true);
    return !isOver;
  };
  moveFor(Math.min(6, turns.length * (1 + 0.4 * rows)), show);
}

function within(share) {
  return Math.max(0, Math.min(1, share));
}

/** An array is known by the last part of its name, the mask by its letter. */
function partIn({ name, letter }) {
  return name ? name.split(".").at(-1) : letter;
}

function canvasesOf(part) {
  const all = [...document.querySelectorAll("#screen .equation canvas.cells")];
  return all.filter(({ operand }) => partIn(operand) === part && !operand.gradient);
}

/** Draws an array of which row after row has come about, and lights up what the current row is made of. */
function showUpTo(e, canvas, share) {
  const { operand } = canvas;
  const { axes, shape, first, labels, title, valueAt } = operand;
  const between = inBetween(e, operand);
  const shareOf = t => within(share * shape[0] - t);
  paintCells(canvas, {
    ...operand,
    valueAt: (t, j) => (shareOf(t) === 1 ? valueAt(t, j) : between(t, j, shareOf(t))),
  });
  if (share === 0 || share === 1) return;
  const t = Math.min(shape[0] - 1, Math.floor(share * shape[0]));
  const values = { [axes[0]]: first + t };
  const part = partIn(operand);
  if (part === "heads") {
    const [weights] = canvasesOf("weights");
    const keys = weights.operand.shape[1];
    return pointAlong(e, { ...values, [weights.operand.axes[1]]: Math.floor(shareOf(t) * keys) });
  }
  if (part !== "scores") return pointAlong(e, values);
  const u = Math.min(shape[1] - 1, Math.floor(shareOf(t) * shape[1]));
  const label = `${title}, ${labels[0](t)} · ${labels[1](u)}: `;
  return pointAlong(e, { ...values, [axes[1]]: u }, label, valueAt(t, u));
}

/** What a cell is drawn as while its row comes about: `(t, j, share)`. */
function inBetween(e, { name, head, first, letter, shape: [, columns], valueAt }) {
  const part = partIn({ name, letter });
  const at = (array, t, j) => elementOf(e.record.arrays[partOf(e, array)], [head, first + t, j]);
  switch (part) {
    case "scores":
      return (t, j, share) => valueAt(t, j) * within(share * columns - j);
    case "scaled":
      return (t, j, share) => at("scores", t, j) + (valueAt(t, j) - at("scores", t, j)) * share;
    case "weights": {
      // those of softmax(share · scores): from all alike to what they are
      const squeezed = (t, j, share) => (valueAt(t, j) > 0 ? valueAt(t, j) ** share : 0);
      const total = (t, share) => range(columns, k => squeezed(t, k, share)).reduce((sum, x) => sum + x, 0);
      return (t, j, share) => squeezed(t, j, share) / total(t, share);
    }
    case "heads": {
      const [weights, values] = ["weights", "v"].map(each => canvasesOf(each)[0].operand.valueAt);
      const keys = e.record.arrays[partOf(e, "v")].shape[1];
      return (t, j, share) =>
        range(Math.ceil(share * keys), u => within(share * keys - u) * weights(t, u) * values(u, j)).reduce(
          (sum, x) => sum + x,
          0,
        );
    }
    default: // the mask, and the scores on which it falls
      return (t, j, share) => (share > 0.5 ? valueAt(t, j) : name ? at("scaled", t, j) : 0);
  }
}
