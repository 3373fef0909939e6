// How far the reader is in the walk, and what the drawing shows of it.
//
// Steps are numbered: 0 is the start (the gradient of the output), then one for each op, then the end (leaves).

import { contentsOf, nameOf } from "./data.js";
import { formatNumber } from "./numbers.js";
import { arrivals, cellKey, seedOf, sumOf, walkBack } from "./walk.js";

/** Everything about where the reader is in the walk. */
export function newWalk(graph, state) {
  const ops = walkBack(graph);
  const steps = new Map(ops.map((op, i) => [op.index, i + 1]));
  const start = { open: new Set(state.open), shown: new Map(state.shown) };
  return {
    ops,
    steps,
    start,
    last: ops.length + 1,
    step: 0,
    quiz: false,
    known: new Set(),
    cells: new Map(),
  };
}

/** The op of a step; none at the start and at the end. */
export function opAt(walk, step = walk.step) {
  return walk.ops[step - 1] ?? null;
}

/** The step at which a vertex is walked; of a leaf, the one that completes its gradient. */
export function stepOf(graph, walk, vertex) {
  const op = vertex.kind === "op" ? vertex : graph.vertices[arrivals(graph, vertex.index, 0).at(-1)?.target];
  return walk.steps.get(op?.index) ?? walk.step;
}

/** A step in a sentence, for screen readers. */
export function stepText(graph, walk) {
  const vertex = opAt(walk);
  if (!vertex)
    return walk.step === 0 ? "Step 0: the start of the walk." : `Step ${walk.step}: the end of the walk.`;
  const g = vertex.gradient;
  const said = g.size === 1 && g.numbers ? ` g is ${formatNumber(g.numbers[0])}.` : "";
  return `Step ${walk.step} of ${walk.last}: ${nameOf(vertex)}.${said}`;
}

/** Whether an edge's gradient has been sent, and is not hidden by the quiz. */
function isSent(walk, edge) {
  const step = walk.steps.get(edge.target) ?? Infinity;
  return step < walk.step || (step === walk.step && !isHidden(walk, edge));
}

/** The edges by which a step has sent something, so far as the quiz does not hide it. */
export function sentBy(walk, op) {
  return op ? op.inputs.filter(edge => edge.gradient && !isHidden(walk, edge)) : [];
}

/** In the walk a box shows the gradient so far; the op of the step and its inputs stand out. */
export function decorateWalk(graph, state, box, lines, classes, receiving) {
  const { walk } = state;
  const vertex = box.kind === "vertex" ? graph.vertices[box.index] : null;
  const op = opAt(walk);
  if (op && op === vertex) classes.push("current");
  else if (receiving.has(box.id)) classes.push("receives");
  else if (vertex && walk.steps.get(vertex.index) > walk.step) classes.push("ahead");
  const isWaiting = box.kind !== "frame" && !hasArrived(graph, walk, box);
  if (isWaiting) classes.push("waiting"); // hides the heat map of its gradient
  if (isWaiting && state.colour === "gradient") {
    lines = lines && lines.map(line => (line.startsWith("gradient norm") ? "gradient norm …" : line));
    return { lines: withArrived(graph, walk, vertex, lines), classes, colour: "family" };
  }
  return { lines: withArrived(graph, walk, vertex, lines), classes };
}

/** Whether all gradients of a box's vertices have been sent, and are not hidden by the quiz. */
function hasArrived(graph, walk, box) {
  const inside = box.kind === "vertex" ? [box.index] : contentsOf(graph, box.index);
  const isKnown = edge => !edge.gradient || isSent(walk, edge);
  return inside.every(i => graph.uses[i].every(isKnown));
}

function withArrived(graph, walk, vertex, lines) {
  if (!vertex) return lines;
  return lines.map(line => (/^gradient (?!norm)/.test(line) ? arrivedText(graph, walk, vertex, line) : line));
}

/** `gradient 2 + …`: what has been sent to a number so far, where the page has the numbers. */
function arrivedText(graph, walk, vertex, line) {
  const all = arrivals(graph, vertex.index, 0);
  const sent = all.filter(edge => isSent(walk, edge));
  const { numbers } = vertex.gradient;
  if (sent.length === all.length) return numbers ? `gradient ${formatNumber(numbers[0])}` : line;
  const seed = seedOf(graph, vertex.index, 0);
  const sum = sumOf([...(seed ? [seed] : []), ...sent.map(edge => edge.gradient)]);
  return sum ? `gradient ${formatNumber(sum[0])} + …` : "gradient …";
}

export function isHidden(walk, edge) {
  return walk.quiz && askedFor(edge) !== null && !walk.known.has(cellKey(edge));
}

/** Of the steps from this one on, and then from the start, the first with a question; this one if there is none. */
export function stepWithQuestion(walk) {
  for (let i = 0; i <= walk.last; i++) {
    const step = (walk.step + i) % (walk.last + 1);
    if (opAt(walk, step)?.inputs.some(edge => edge.gradient && isHidden(walk, edge))) return step;
  }
  return walk.step;
}

/** The question about an input's gradient: an element, the shape, or, for an empty array, nothing. */
export function askedFor(edge) {
  if (!edge.gradient.size) return null;
  return edge.pulled.whole && edge.gradient.whole ? "element" : "shape";
}
