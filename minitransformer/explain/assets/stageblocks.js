// The blocks of the picture: what is drawn of each stack, from the bottom up, and which array is its strip.
//
// A block has an `id`, its `stack`, a short `text` and a `label` (the map's), the `array` whose rows are drawn, the
// address `to` of its stage, and its height in `units`. An `attention` is the path whose weights are drawn as lines.

import { meanOfHeads } from "./attention.js";
import { range } from "./derive.js";
import { subLayers } from "./map.js";
import { recurrentBlocks } from "./recurrent.js";

/** All blocks of a stack; `layer` (from 0) is the only one drawn of a folded stack, null draws all. */
export function stackBlocks(e, stack, { isCompact, layer }) {
  const side = stack.name === "decoder" ? "target" : "source";
  const where = stack.name === "layers" ? "" : `, ${stack.name}`;
  const second = e.isPair && stack.name === "decoder";
  const blocks = [];
  const add = (text, kind, array, to, more = {}) =>
    blocks.push({
      id: array ?? `${stack.name}.words`,
      text,
      label: `${text}${where}`,
      kind,
      array,
      to,
      units: 1,
      ...more,
    });
  if (e.isImage) add("Patches", "text", "patches", "patches", { skips: 1 });
  else add("Tokens", "text", null, second ? "shifted" : "tokens", { units: 0 });
  const [embedded, input] = embeddingArrays(e, stack);
  const first = second ? "shifted" : e.isImage ? "patches" : "embeddings";
  if (!isCompact || embedded === input) add(isCompact ? "Input" : "Embedding", "embedding", embedded, first);
  if (embedded !== input) {
    const text = stack.concatenate ? "Positions beside" : stack.segments ? "+ Segments, pos." : "+ Positions";
    add(isCompact ? "Input" : text, "embedding", input, second ? "shifted" : "positions");
  }
  if (stack.embeddingNorm && !isCompact)
    add("Norm", "norm", `${stack.name}.input`, `input-norm:${stack.name}`);
  const layers = layer === null ? range(stack.layers, i => i) : [layer];
  for (const i of layers)
    blocks.push(
      ...(stack.recurrent
        ? recurrentBlocks(stack, i, isCompact)
        : isCompact
          ? [wholeLayer(e, stack, i)]
          : layerBlocks(stack, i)),
    );
  if (stack.finalNorm && !isCompact)
    add("Norm", "norm", `${stack.name}.norm.output`, `final-norm:${stack.name}`);
  for (const block of blocks) Object.assign(block, { stack: stack.name, side });
  return blocks;
}

/** The arrays of the embedding, and of its sum with positions. */
export function embeddingArrays(e, { name, factor, embeddingNorm, positions, segments }) {
  const embedded = `${name}.${e.isImage ? "tokens" : factor ? "scaled" : "embedded"}`;
  if (embeddingNorm) return [embedded, `${name}.embedding_sum`];
  return [embedded, positions === "none" && !segments ? embedded : `${name}.input`];
}

/** The sub-layers of layer i, each with its sum around. */
function layerBlocks(stack, i) {
  const where = `${stack.name === "layers" ? "" : `${stack.name} `}layer ${i + 1}`;
  return subLayers(stack, i).flatMap(([name, text, to, kind], j) => {
    const path = to.split(":")[1];
    const isAttention = kind === "attention";
    const residual = `${stack.name}.layers.${i}.residual${j + 1}`;
    const sum = stack.normFirst ? "Add" : "Add & norm";
    return [
      {
        id: path,
        text,
        label: `${text}, ${where}`,
        kind,
        to,
        path,
        layer: i,
        units: isAttention ? 2.1 : 1,
        array: isAttention ? `${path}.output` : `${path}.hidden`,
        attention: isAttention ? path : null,
      },
      {
        id: residual,
        text: sum,
        label: `${sum} after ${name}, ${where}`,
        kind: "norm",
        to: `add-norm:${residual}`,
        path: residual,
        layer: i,
        units: 1,
        array: `${residual}.${stack.normFirst ? "sum" : "norm.output"}`,
        around: 1,
      },
    ];
  });
}

/** A layer as one block, where there is little room: its self-attention, and what it gives. */
function wholeLayer(e, stack, i) {
  const all = layerBlocks(stack, i);
  const [own] = all;
  const { array, id } = all.at(-1);
  const where = stack.name === "layers" ? "" : `, ${stack.name}`;
  const cross = all.find(block => block.path.includes("cross"))?.path ?? null;
  return {
    id,
    array,
    text: `Layer ${i + 1}`,
    label: `Layer ${i + 1}${where}`,
    kind: "attention",
    to: own.to,
    path: own.path,
    layer: i,
    units: 2.1,
    attention: cross ?? own.path,
    parts: all,
  };
}

/** Whether a block is the one of an id, or the layer in which it is drawn. */
export function standsFor(block, id) {
  return block.id === id || (block.parts ?? []).some(part => part.id === id);
}

/** The tokens of a side as the picture shows them. */
export function wordsOf(e, side) {
  return e.tokensOf(side);
}

/** The head whose attention the picture shows; null: the mean of all. */
export function shownHead(e, path) {
  return e.pictureHead < e.record.arrays[`${path}.weights`].shape[0] ? e.pictureHead : null;
}

/** The head that looks most from a query to a key, `(t, u)`, or the one that is shown. */
export function leadingHead(e, path) {
  const shown = shownHead(e, path);
  const {
    data,
    shape: [heads, rows, columns],
  } = e.record.arrays[`${path}.weights`];
  const weight = (head, t, u) => data[(head * rows + t) * columns + u];
  return (t, u) =>
    shown ?? range(heads, i => i).reduce((best, i) => (weight(i, t, u) > weight(best, t, u) ? i : best));
}

/** The attention weights of a path: of one head, or the mean of all; (1, queries, keys). */
export function shownWeights(e, path) {
  const weights = e.record.arrays[`${path}.weights`];
  const [, rows, columns] = weights.shape;
  const head = shownHead(e, path);
  if (head === null) return meanOfHeads(weights);
  const size = rows * columns;
  return { shape: [1, rows, columns], data: weights.data.subarray(head * size, (head + 1) * size) };
}

export const MOST_LINES = 11; // tokens on a side; with more, a token has only the lines of its three largest weights
const CROWDED = 64; // tokens; with more, an attention is drawn as heat maps, and one to the input with `MOST_LINES`

/** Whether an attention is drawn as lines. */
export function hasLines(e, path) {
  const [, rows, columns] = e.record.arrays[`${path}.weights`].shape;
  return Math.max(rows, columns) <= (path.includes("cross") ? MOST_LINES : CROWDED);
}

/** The least weight of each query that is drawn as a line. */
export function leastWeights({ data, shape: [, rows, columns] }) {
  if (columns <= MOST_LINES) return new Float32Array(rows).fill(FAINT);
  return Float32Array.from({ length: rows }, (_, t) => {
    const row = data.slice(t * columns, (t + 1) * columns).sort();
    return Math.max(FAINT, row.at(-3));
  });
}

export const FAINT = 0.02; // a weight whose line would not be seen
