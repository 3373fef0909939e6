// The mathematics of the walk back: in which order gradients arrive, what is added to what, and each cell's
// arithmetic.
//
// Every function here takes the traced graph and returns plain values.

import { contentsOf, entry } from "./data.js";
import { MORE_DIGITS, formatNumber } from "./numbers.js";

/**
 * Ops in the order of the real walk: the last that was computed first, those that no gradient reaches left
 * out.
 */
export function walkBack(graph) {
  return graph.vertices.filter(vertex => vertex.kind === "op" && vertex.gradient).reverse();
}

/** The edges that bring a gradient to a vertex's result, in the order in which they do. */
export function arrivals(graph, source, result) {
  return graph.uses[source]
    .filter(edge => edge.result === result && edge.gradient)
    .sort((a, b) => b.target - a.target || a.place - b.place);
}

/**
 * What an edge adds to: `before` (numbers or null), the `sum`, how many arrived before, how many are still
 * to come. Sums are rounded to the array's dtype after each addition, as they were.
 */
export function accumulation(graph, edge) {
  const all = arrivals(graph, edge.source, edge.result);
  const place = all.indexOf(edge);
  const seed = seedOf(graph, edge.source, edge.result);
  const parts = [...(seed ? [seed] : []), ...all.slice(0, place).map(other => other.gradient)];
  const before = parts.length ? sumOf(parts) : null;
  return {
    before,
    sum: sumOf([...parts, edge.gradient]),
    arrived: parts.length,
    coming: all.length - place - 1,
  };
}

/** What the walk began with at an output's result; null elsewhere. */
export function seedOf(graph, source, result) {
  return graph.vertices[source].seeds[result] ?? null;
}

/** The numbers of a sum of gradients; null if some are missing. */
export function sumOf(gradients) {
  return gradients.length && gradients.every(g => g.whole) ? accumulated(gradients) : null;
}

/** The numbers of gradients, added up and rounded after each addition. */
function accumulated(gradients) {
  const round = ROUNDING[gradients[0].dtype] ?? (x => x);
  return gradients.map(g => g.numbers).reduce((a, b) => a.map((x, i) => round(x + b[i])));
}

/** The values that a part takes from outside, in the order of use: `{ vertex, result, edges }`, its edges inside. */
export function enteringPart(graph, group) {
  const inside = new Set(contentsOf(graph, group.index));
  const found = new Map();
  for (const edge of [...inside].flatMap(i => graph.vertices[i].inputs)) {
    if (inside.has(edge.source)) continue;
    const key = `${edge.source}.${edge.result}`;
    const vertex = graph.vertices[edge.source];
    if (!found.has(key)) found.set(key, { vertex, result: edge.result, edges: [] });
    found.get(key).edges.push(edge);
  }
  return [...found.values()];
}

/** The results of a part that are used outside, or are outputs. */
export function leavingPart(graph, group) {
  const inside = new Set(contentsOf(graph, group.index));
  return [...inside].flatMap(i => {
    const vertex = graph.vertices[i];
    const isUsed = result =>
      graph.uses[i].some(edge => edge.result === result && !inside.has(edge.target)) ||
      (vertex.isOutput && result === 0);
    return range(vertex.values.length)
      .filter(isUsed)
      .map(result => ({ vertex, result }));
  });
}

/**
 * What a part sends back to a value that enters it: the sum over its uses inside, as a snapshot, without numbers
 * if the page does not have all of them. null if no gradient arrives.
 */
export function sentByPart(edges) {
  const sent = edges.filter(edge => edge.gradient).map(edge => edge.gradient);
  if (sent.length < 2) return sent[0] ?? null;
  const numbers = sent.every(g => g.numbers) ? accumulated(sent) : null;
  return { ...sent[0], numbers, whole: sent.every(g => g.whole), statistics: null };
}

const ROUNDING = { float32: Math.fround, float16: roundHalf };

/** The nearest float16: eleven bits, a tie to the even one; what lies beyond 65504 is infinite. */
export function roundHalf(x) {
  if (!Number.isFinite(x) || x === 0) return x;
  const size = Math.abs(x);
  let exponent = Math.max(-14, Math.floor(Math.log2(size)));
  if (exponent > -14 && 2 ** exponent > size) exponent -= 1;
  if (2 ** (exponent + 1) <= size) exponent += 1;
  const step = 2 ** (exponent - 10);
  const [low, part] = [Math.floor(size / step), (size / step) % 1];
  const up = part > 0.5 || (part === 0.5 && low % 2 === 1);
  const rounded = (low + (up ? 1 : 0)) * step;
  return Math.sign(x) * (rounded > 65504 ? Infinity : rounded);
}

/**
 * What was sent to a result whose gradient differs because a hook changed it: `numbers` (null if the page does
 * not have them). null if what was sent is what arrives.
 */
export function beforeHooks(graph, vertex, result) {
  const total = vertex.gradients[result];
  const seed = seedOf(graph, vertex.index, result);
  const sent = [...(seed ? [seed] : []), ...arrivals(graph, vertex.index, result).map(edge => edge.gradient)];
  return total && sent.length ? changed(total, sent) : null;
}

const EPSILON = { float16: 1e-3, float32: 1.2e-7, float64: 2.3e-16 };

function changed(total, sent) {
  const tolerance = 4 * (sent.length + 1) * (EPSILON[total.dtype] ?? 1e-6);
  const sum = sumOf(sent);
  if (sum && total.whole) {
    const sizes = sum.map((_, i) => sent.reduce((size, g) => size + Math.abs(g.numbers[i]), 0));
    const isSame = sum.every(
      (x, i) => Object.is(x, total.numbers[i]) || near(x, total.numbers[i], tolerance * sizes[i]),
    );
    return isSame ? null : { numbers: sum };
  }
  const means = [total, ...sent].map(g => g.statistics);
  if (!means.every(of => of && !of.nan && !of.inf)) return null;
  const size = means.reduce((all, of) => all + Math.abs(of.mean) + of.std, 0);
  const mean = means.slice(1).reduce((all, of) => all + of.mean, 0);
  const norms = means.slice(1).reduce((all, of) => all + of.norm, 0);
  const isOther = !near(mean, total.statistics.mean, 1e-4 * size) || total.statistics.norm > 1.001 * norms;
  const isAlone = sent.length === 1 && !near(norms, total.statistics.norm, 1e-4 * norms);
  return isOther || isAlone ? { numbers: null } : null;
}

function near(a, b, tolerance) {
  return a === b || (Number.isFinite(a) && Number.isFinite(b) && Math.abs(a - b) <= tolerance);
}

/** Whether a hook changed a gradient on its way from the outputs to a vertex: of that, f knows nothing. */
export function isHooked(graph, vertex) {
  graph.hooked ??= hookedVertices(graph);
  return graph.hooked.has(vertex.index);
}

function hookedVertices(graph) {
  const hooked = new Set();
  for (const vertex of [...graph.vertices].reverse()) {
    const here = vertex.gradients.some((g, i) => g && beforeHooks(graph, vertex, i));
    const after = graph.uses[vertex.index].some(edge => edge.gradient && hooked.has(edge.target));
    if (here || after) hooked.add(vertex.index);
  }
  return hooked;
}

/**
 * How one element of what an edge pulls through is computed: a list of products, each a list of factors.
 * null where the numbers are not there.
 */
export function arithmetic(graph, edge, flat) {
  const terms = termsOf(graph, edge, flat);
  return terms && isSumOf(terms, edge.pulled, flat) ? terms : null;
}

export function termsOf(graph, edge, flat) {
  const product = matrixProduct(graph, edge);
  if (product)
    return product
      .at(flat)
      .flatMap(({ left, right, i, j }) => range(left.columns).map(k => [left.get(i, k), right.get(k, j)]));
  const upstream = graph.vertices[edge.target].gradients[0];
  if (!edge.jacobian || !upstream?.whole) return null;
  const rows = range(edge.jacobian.rows).filter(row =>
    edge.jacobian.diagonal ? row === flat : entry(edge.jacobian, row, flat) !== 0,
  );
  return rows.map(row => [upstream.numbers[row], entry(edge.jacobian, row, flat)]);
}

/** Whether products add up to a number of the data, but for its rounding: what does not is never shown. */
function isSumOf(terms, pulled, flat) {
  const total = pulled.numbers?.[flat];
  if (!Number.isFinite(total)) return true;
  const products = terms.map(factors => factors.reduce((a, b) => a * b));
  const [sum, size] = [x => x, Math.abs].map(of => products.reduce((all, x) => all + of(x), 0));
  return Math.abs(sum - total) <= 0.01 * size + 1e-6 * Math.abs(total);
}

export function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}

/**
 * The elements over which a broadcast input's gradient is summed: places in `pulled` for one place in
 * `gradient`.
 */
export function summedFrom(edge, flat) {
  return matching(flat, edge.gradient.shape, edge.pulled.shape);
}

// ---------------------------------------------------------------- matrix products

/** Of matmul and linear: which two matrices an input's gradient is the product of. */
export function matrixProduct(graph, edge) {
  const vertex = graph.vertices[edge.target];
  const arrays = vertex.inputs.map(input => graph.vertices[input.source].values[input.result]);
  const g = vertex.gradients[0];
  const isWhole = g?.whole && edge.pulled?.size && arrays.every(array => array.whole);
  if (!isWhole || vertex.family !== "matrix" || vertex.inputs.length < 2 || edge.place > 1) return null;
  if (vertex.name === "linear") return linearProduct(edge, arrays, g);
  return vertex.name === "matmul" ? matmulProduct(edge, arrays, g) : null;
}

/** x (..., in), W (out, in): the gradients are g W and gᵀ x, the rows of all batches one below another. */
function linearProduct(edge, [x, weight], g) {
  const rows = array => [array.size / array.shape.at(-1), array.shape.at(-1)];
  const G = matrix(g.numbers, 0, rows(g), "g");
  const [left, right] =
    edge.place === 0
      ? [G, matrix(weight.numbers, 0, rows(weight), "W")]
      : [transposed(G), matrix(x.numbers, 0, rows(x), "x")];
  const note = x.shape.length > 2 ? `Rows are counted through axes 0 to ${x.shape.length - 2}.` : "";
  const at = flat => [{ left, right, ...placeIn(right.columns, flat) }];
  return { at, batches: 1, summed: [], note };
}

/**
 * x (..., n, k), y (..., k, m), batches broadcast: the gradients are g yᵀ and xᵀ g, batch by batch; of an
 * operand that stood in several batches, their sum.
 */
function matmulProduct(edge, [x, y], g) {
  const xs = x.shape.length === 1 ? [1, x.shape[0]] : x.shape;
  const ys = y.shape.length === 1 ? [y.shape[0], 1] : y.shape;
  const ends = [xs.at(-2), ys.at(-1)];
  const batches = g.shape.slice(0, g.shape.length - (x.shape.length > 1) - (y.shape.length > 1));
  const pick = (array, shape, name) => m =>
    matrix(array.numbers, offset(m, batches, shape), shape.slice(-2), name);
  const [G, X, Y] = [pick(g, [...batches, ...ends], "g"), pick(x, xs, "x"), pick(y, ys, "y")];
  const factors = m => (edge.place === 0 ? [G(m), transposed(Y(m))] : [transposed(X(m)), G(m)]);
  const own = edge.pulled.shape.slice(0, -Math.min(2, [x, y][edge.place].shape.length));
  const [first, second] = factors(0);
  const size = first.rows * second.columns;
  return {
    batches: batches.reduce((a, b) => a * b, 1),
    summed: summedAxes(own, batches),
    note: "",
    at: flat =>
      matching(Math.floor(flat / size), own, batches).map(m => {
        const [left, right] = factors(m);
        return { left, right, ...placeIn(right.columns, flat % size), batch: unravel(m, batches) };
      }),
  };
}

function placeIn(columns, flat) {
  return { i: Math.floor(flat / columns), j: flat % columns };
}

/** The axes of `batches` that are no longer in `own`. */
function summedAxes(own, batches) {
  const extra = batches.length - own.length;
  return range(batches.length).filter(
    axis => axis < extra || (own[axis - extra] === 1 && batches[axis] !== 1),
  );
}

/** The batches, by number, that number `m` of the batches `own` stood in. */
function matching(m, own, batches) {
  const wanted = unravel(m, own);
  const extra = batches.length - own.length;
  return range(batches.reduce((a, b) => a * b, 1)).filter(each => {
    const index = unravel(each, batches);
    return wanted.every((n, axis) => own[axis] === 1 || index[axis + extra] === n);
  });
}

/** Where the matrices of batch number `m` begin in an array of which some batch axes may be broadcast. */
function offset(m, batches, shape) {
  const own = shape.slice(0, -2);
  const index = unravel(m, batches).slice(batches.length - own.length);
  const place = own.reduce((sum, n, axis) => sum * n + (n === 1 ? 0 : index[axis]), 0);
  return place * shape.at(-2) * shape.at(-1);
}

function matrix(numbers, start, [rows, columns], name) {
  return { rows, columns, name, get: (i, j) => numbers[start + i * columns + j] };
}

function transposed(m) {
  return { rows: m.columns, columns: m.rows, name: `${m.name}ᵀ`, get: (i, j) => m.get(j, i) };
}

/** A matrix's numbers in a row. */
export function flatten(m) {
  return range(m.rows).flatMap(i => range(m.columns).map(j => m.get(i, j)));
}

/** The index of an element, from its place in the flat array. */
export function unravel(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

export function cellKey(edge, table = "cell") {
  return `${edge.target}/${edge.place}/${table}`;
}

/** `0.5 × 2 + 1 × 3 = `. */
export function termsText(terms) {
  const written = x => (x < 0 ? `(${formatNumber(x, MORE_DIGITS)})` : formatNumber(x, MORE_DIGITS));
  if (!terms.length) return "";
  return `${terms.map(factors => factors.map(written).join(" × ")).join(" + ")} = `;
}
