// Tensors and the operations of a Transformer, each with its derivative beside it.
//
// A tensor has float32 numbers in row-major order; sums are float64. An operation returns a tensor that knows
// its inputs, and for each of them a function from g, the gradient of the loss with respect to the result, to
// that with respect to the input. `gradients` walks back through these. Letters: T queries, S keys, H heads,
// d the width of a head, D and E other widths.

export class Tensor {
  static count = 0;

  constructor(shape, data, inputs = [], derivatives = []) {
    Object.assign(this, { shape, data, inputs, derivatives });
    this.number = Tensor.count++; // the inputs' are smaller
  }

  /** The length of a row: of the last axis. */
  get width() {
    return this.shape.at(-1);
  }
}

/**
 * A matrix or vector of the model. A matrix remembers the rows that it was multiplied with, and their
 * products: a text and what is generated after it, or the same text with one more letter, are mostly the
 * same rows again.
 */
export class Weight extends Tensor {
  recent = new Map(); // of this pass, by `keyOf`
  older = new Map(); // of the pass before

  /** A new pass: what the one before did not use is forgotten. */
  age() {
    this.older = this.recent;
    this.recent = new Map();
  }

  /** What `multiply` makes of rows x of D numbers: rows of E numbers. It is given only the rows that are new. */
  products(x, D, E, from, multiply) {
    const T = x.length / D;
    const keys = Array.from({ length: T }, (_, t) => keyOf(x, t, D, from));
    const known = keys.map((key, t) => this.find(key, x, t, D, from));
    const missing = [...known.keys()].filter(t => known[t] === null);
    const y = missing.length === T ? multiply(x) : new Float32Array(T * E);
    if (missing.length < T) {
      known.forEach((each, t) => each && y.set(each.y.subarray(each.t * E, (each.t + 1) * E), t * E));
      const computed = multiply(joined(missing.map(t => x.subarray(t * D, (t + 1) * D))));
      missing.forEach((t, i) => y.set(computed.subarray(i * E, (i + 1) * E), t * E));
    }
    keys.forEach((key, t) => this.recent.set(key, { x, y, t, from }));
    return y;
  }

  find(key, x, t, D, from) {
    const each = this.recent.get(key) ?? this.older.get(key);
    if (each?.from !== from) return null;
    for (let k = 0; k < D; k++) if (each.x[each.t * D + k] !== x[t * D + k]) return null;
    return each;
  }
}

/** A number that two rows seldom share: from the bits of row t of x. */
function keyOf(x, t, D, from) {
  const bits = new Int32Array(x.buffer, x.byteOffset + 4 * t * D, D);
  let key = from;
  for (let k = 0; k < D; k++) key = Math.imul(key ^ bits[k], 0x01000193);
  return key;
}

/** Arrays of numbers, one after another. */
export function joined(arrays) {
  const data = new Float32Array(arrays.reduce((size, array) => size + array.length, 0));
  arrays.reduce((at, array) => (data.set(array, at), at + array.length), 0);
  return data;
}

/** The gradient of a scalar with respect to each tensor that it was computed from, except weights: a Map. */
export function gradients(scalar) {
  const found = new Map([[scalar, Float32Array.of(1)]]);
  const whole = new Set(); // gradients to which those of parts are added in place
  for (const tensor of historyOf(scalar)) {
    if (tensor.from !== undefined) {
      const [input] = tensor.inputs;
      if (!whole.has(input))
        found.set(input, Float32Array.from(found.get(input) ?? new Float32Array(input.data.length)));
      whole.add(input);
      addTo(found.get(input), found.get(tensor), tensor.from);
      continue;
    }
    tensor.inputs.forEach((input, i) => {
      if (input instanceof Weight) return;
      const gradient = tensor.derivatives[i](found.get(tensor));
      found.set(input, found.has(input) ? sum(found.get(input), gradient) : gradient);
    });
  }
  return found;
}

/** The gradient with respect to each weight: a Map, from those of all others. */
export function weightGradients(scalar, others) {
  const found = new Map();
  for (const tensor of historyOf(scalar)) {
    tensor.inputs.forEach((input, i) => {
      if (!(input instanceof Weight)) return;
      const gradient = tensor.derivatives[i](others.get(tensor));
      found.set(input, found.has(input) ? sum(found.get(input), gradient) : gradient);
    });
  }
  return found;
}

/** A tensor and all that it was computed from, the newest first: each after everything that used it. */
function historyOf(tensor) {
  const found = new Set([tensor]);
  for (const each of found) for (const input of each.inputs) found.add(input); // a Set may grow meanwhile
  return [...found].sort((a, b) => b.number - a.number);
}

// ---------------------------------------------------------------- matrices, as arrays of numbers

export function sum(x, y) {
  const z = new Float32Array(x.length);
  for (let i = 0; i < z.length; i++) z[i] = x[i] + y[i];
  return z;
}

function product(x, y) {
  const z = new Float32Array(x.length);
  for (let i = 0; i < z.length; i++) z[i] = x[i] * y[i];
  return z;
}

/** xᵀ, for x of rows of `width`. */
export function transposed(x, width) {
  const rows = x.length / width;
  const y = new Float32Array(x.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < width; j++) y[j * rows + i] = x[i * width + j];
  return y;
}

/**
 * x wᵀ, for x (T, D) and w (E, D): dot products of rows. Two rows of x and four of w are read together, so
 * that a number is loaded once for several products. Beyond the end, the last row is taken again.
 */
export function timesTransposed(x, w, D) {
  const T = x.length / D;
  const E = w.length / D;
  if (T === 1) return rowTimesTransposed(x, w, D);
  const y = new Float32Array(T * E);
  for (let t = 0; t < T; t += 2) {
    const t1 = Math.min(t + 1, T - 1);
    for (let e = 0; e < E; e += 4) {
      const e1 = Math.min(e + 1, E - 1);
      const e2 = Math.min(e + 2, E - 1);
      const e3 = Math.min(e + 3, E - 1);
      let a0 = 0,
        a1 = 0,
        a2 = 0,
        a3 = 0,
        b0 = 0,
        b1 = 0,
        b2 = 0,
        b3 = 0;
      for (let k = 0; k < D; k++) {
        const a = x[t * D + k],
          b = x[t1 * D + k];
        const w0 = w[e * D + k],
          w1 = w[e1 * D + k],
          w2 = w[e2 * D + k],
          w3 = w[e3 * D + k];
        a0 += a * w0;
        a1 += a * w1;
        a2 += a * w2;
        a3 += a * w3;
        b0 += b * w0;
        b1 += b * w1;
        b2 += b * w2;
        b3 += b * w3;
      }
      y[t * E + e] = a0;
      y[t * E + e1] = a1;
      y[t * E + e2] = a2;
      y[t * E + e3] = a3;
      y[t1 * E + e] = b0;
      y[t1 * E + e1] = b1;
      y[t1 * E + e2] = b2;
      y[t1 * E + e3] = b3;
    }
  }
  return y;
}

/** x wᵀ of one row x: four rows of w are read together. */
function rowTimesTransposed(x, w, D) {
  const E = w.length / D;
  const y = new Float32Array(E);
  for (let e = 0; e < E; e += 4) {
    const [e1, e2, e3] = [Math.min(e + 1, E - 1), Math.min(e + 2, E - 1), Math.min(e + 3, E - 1)];
    let a0 = 0,
      a1 = 0,
      a2 = 0,
      a3 = 0;
    for (let k = 0; k < D; k++) {
      const a = x[k];
      a0 += a * w[e * D + k];
      a1 += a * w[e1 * D + k];
      a2 += a * w[e2 * D + k];
      a3 += a * w[e3 * D + k];
    }
    y[e] = a0;
    y[e1] = a1;
    y[e2] = a2;
    y[e3] = a3;
  }
  return y;
}

/** x w of one row x: four rows of w are read together, as in `times`, so that the sums are the same. */
function rowTimes(x, w, D) {
  const E = x.length;
  const y = new Float64Array(D);
  for (let e = 0; e < E; e += 4) {
    const [e1, e2, e3] = [Math.min(e + 1, E - 1), Math.min(e + 2, E - 1), Math.min(e + 3, E - 1)];
    const a0 = x[e],
      a1 = e1 > e ? x[e1] : 0,
      a2 = e2 > e1 ? x[e2] : 0,
      a3 = e3 > e2 ? x[e3] : 0;
    for (let k = 0; k < D; k++) {
      y[k] += a0 * w[e * D + k] + a1 * w[e1 * D + k] + a2 * w[e2 * D + k] + a3 * w[e3 * D + k];
    }
  }
  return Float32Array.from(y);
}

/** x w, for x (T, E) and w (E, D): sums of rows of w. Read as in `timesTransposed`; beyond the end is 0. */
export function times(x, w, E) {
  const T = x.length / E;
  const D = w.length / E;
  if (T === 1) return rowTimes(x, w, D);
  const y = new Float32Array(T * D);
  const row = new Float64Array(D);
  const row1 = new Float64Array(D);
  for (let t = 0; t < T; t += 2) {
    const t1 = Math.min(t + 1, T - 1);
    row.fill(0);
    row1.fill(0);
    for (let e = 0; e < E; e += 4) {
      const e1 = Math.min(e + 1, E - 1);
      const e2 = Math.min(e + 2, E - 1);
      const e3 = Math.min(e + 3, E - 1);
      const a0 = x[t * E + e],
        b0 = x[t1 * E + e];
      const a1 = e1 > e ? x[t * E + e1] : 0,
        b1 = e1 > e ? x[t1 * E + e1] : 0;
      const a2 = e2 > e1 ? x[t * E + e2] : 0,
        b2 = e2 > e1 ? x[t1 * E + e2] : 0;
      const a3 = e3 > e2 ? x[t * E + e3] : 0,
        b3 = e3 > e2 ? x[t1 * E + e3] : 0;
      for (let k = 0; k < D; k++) {
        const w0 = w[e * D + k],
          w1 = w[e1 * D + k],
          w2 = w[e2 * D + k],
          w3 = w[e3 * D + k];
        row[k] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3;
        row1[k] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3;
      }
    }
    y.set(row, t * D);
    y.set(row1, t1 * D);
  }
  return y;
}

// ---------------------------------------------------------------- sums, products, layouts

/** x + y. dx = g, dy = g. */
export function add(x, y) {
  return new Tensor(x.shape, sum(x.data, y.data), [x, y], [g => g, g => g]);
}

/** x ∘ y, number by number. dx = g ∘ y, dy = g ∘ x. */
export function multiply(x, y) {
  return new Tensor(
    x.shape,
    product(x.data, y.data),
    [x, y],
    [g => product(g, y.data), g => product(g, x.data)],
  );
}

/** c x. dx = c g. */
export function scale(x, c) {
  return new Tensor(
    x.shape,
    x.data.map(value => c * value),
    [x],
    [g => g.map(value => c * value)],
  );
}

/** The same numbers under another name, or in another shape. dx = g. */
export function alias(x, shape = x.shape) {
  return new Tensor(shape, x.data, [x], [g => g]);
}

/** Rows of `weight`: row i is that of ids[i], a one-hot vector times the matrix. dW adds up rows of g. */
export function lookup(weight, ids) {
  const D = weight.width;
  const data = new Float32Array(ids.length * D);
  ids.forEach((id, i) => data.set(weight.data.subarray(id * D, (id + 1) * D), i * D));
  const derivative = g => {
    const dW = new Float32Array(weight.data.length);
    ids.forEach((id, i) => {
      for (let k = 0; k < D; k++) dW[id * D + k] += g[i * D + k];
    });
    return dW;
  };
  return new Tensor([ids.length, D], data, [weight], [derivative]);
}

/** `size` numbers of x from one on, as a row. dx = g there: `gradients` adds it to those of the other parts. */
export function part(x, from, size) {
  return Object.assign(new Tensor([1, size], x.data.subarray(from, from + size), [x]), { from });
}

/** Rows `from` to `to`. dx = g there, 0 elsewhere. */
export function slice(x, from, to) {
  const D = x.width;
  const data = x.data.slice(from * D, to * D);
  const derivative = g => {
    const dx = new Float32Array(x.data.length);
    dx.set(g, from * D);
    return dx;
  };
  return new Tensor([to - from, D], data, [x], [derivative]);
}

/** The rows of x, then those of y. dx and dy are the rows of g. */
export function stack(x, y) {
  const size = x.data.length;
  const data = new Float32Array(size + y.data.length);
  data.set(x.data);
  data.set(y.data, size);
  const derivatives = [g => g.slice(0, size), g => g.slice(size)];
  return new Tensor([data.length / x.width, x.width], data, [x, y], derivatives);
}

/** Each row of x (T, D) beside that of y (T, E): (T, D + E). dx and dy are columns of g. */
export function beside(x, y) {
  const [D, E] = [x.width, y.width];
  const T = x.data.length / D;
  const data = new Float32Array(T * (D + E));
  for (let t = 0; t < T; t++) {
    data.set(x.data.subarray(t * D, (t + 1) * D), t * (D + E));
    data.set(y.data.subarray(t * E, (t + 1) * E), t * (D + E) + D);
  }
  return new Tensor(
    [T, D + E],
    data,
    [x, y],
    [g => columns(g, D + E, 0, D), g => columns(g, D + E, D, D + E)],
  );
}

/** Columns `from` to `to` of the rows of `width`. */
function columns(x, width, from, to) {
  const rows = x.length / width;
  const y = new Float32Array(rows * (to - from));
  for (let t = 0; t < rows; t++) {
    y.set(x.subarray(t * width + from, t * width + to), t * (to - from));
  }
  return y;
}

/** Columns `from` to `to` of x. dx = g there, 0 elsewhere. */
export function cut(x, from, to) {
  const D = x.width;
  const E = to - from;
  const T = x.data.length / D;
  const derivative = g => {
    const dx = new Float32Array(x.data.length);
    for (let t = 0; t < T; t++) dx.set(g.subarray(t * E, (t + 1) * E), t * D + from);
    return dx;
  };
  return new Tensor([T, E], columns(x.data, D, from, to), [x], [derivative]);
}

/** (T, H d) -> (H, T, d). */
export function splitHeads(x, H) {
  const [T, d] = [x.shape[0], x.width / H];
  return new Tensor([H, T, d], swapAxes(x.data, T, H, d), [x], [g => swapAxes(g, H, T, d)]);
}

/** (H, T, d) -> (T, H d): the heads side by side. */
export function joinHeads(x) {
  const [H, T, d] = x.shape;
  return new Tensor([T, H * d], swapAxes(x.data, H, T, d), [x], [g => swapAxes(g, T, H, d)]);
}

/** (A, B, d) -> (B, A, d). */
function swapAxes(x, A, B, d) {
  const y = new Float32Array(x.length);
  for (let a = 0; a < A; a++) {
    for (let b = 0; b < B; b++) y.set(x.subarray((a * B + b) * d, (a * B + b + 1) * d), (b * A + a) * d);
  }
  return y;
}

// ---------------------------------------------------------------- linear layers

/**
 * y = x Wᵀ + b, for x (T, D), W (E, D), b (E) or null. dx = g W, dW = gᵀ x, db = the sum of the rows of g.
 * With `rows`, [from, to], only these of W and b: those of the queries, say, of a stacked projection.
 */
export function linear(x, W, b = null, rows = [0, W.shape[0]]) {
  const D = x.width;
  const [from, to] = rows;
  const E = to - from;
  const w = W.data.subarray(from * D, to * D);
  const y = W.products(x.data, D, E, from, x => {
    const y = timesTransposed(x, w, D);
    if (b) for (let i = 0; i < y.length; i++) y[i] += b.data[from + (i % E)];
    return y;
  });
  const derivatives = [
    g => times(g, w, E),
    g => {
      const dW = new Float32Array(W.data.length);
      dW.set(times(transposed(g, E), x.data, g.length / E), from * D);
      return dW;
    },
    g => {
      const db = new Float32Array(b.data.length);
      db.set(sumOfRows(g, E), from);
      return db;
    },
  ];
  return new Tensor([y.length / E, E], y, b ? [x, W, b] : [x, W], derivatives);
}

export function sumOfRows(x, width) {
  const found = new Float64Array(width);
  for (let i = 0; i < x.length; i++) found[i % width] += x[i];
  return Float32Array.from(found);
}

// ---------------------------------------------------------------- activations

/** f(x), number by number, with its derivative f'. dx = g f'(x). */
export function activation(x, f, derivative) {
  return new Tensor(x.shape, x.data.map(f), [x], [g => g.map((value, i) => value * derivative(x.data[i]))]);
}

const relu = x => Math.max(x, 0); // max(x, 0); 1 if x > 0
const sigmoid = x => 1 / (1 + Math.exp(-x)); // σ(x) = 1 / (1 + exp(-x)); σ (1 - σ)
const silu = x => x * sigmoid(x); // x σ(x); σ + x σ (1 - σ)

/** The error function by a series of positive terms, 2/√π exp(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n + 1)). */
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let total = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    total += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
}

const normalCdf = x => 0.5 * (1 + erf(x / Math.SQRT2)); // Φ
const normalDensity = x => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI); // φ = Φ'

/** The inner function of GELU's approximation, u = √(2/π) (x + 0.044715 x³). */
const tanhArgument = x => Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
const tanhSlope = x => Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * x ** 2);

/** The activations, each with its derivative. */
export const CURVES = {
  relu: { f: relu, slope: x => (x > 0 ? 1 : 0) },
  gelu: { f: x => x * normalCdf(x), slope: x => normalCdf(x) + x * normalDensity(x) }, // x Φ(x)
  gelu_tanh: {
    // x (1 + tanh u) / 2
    f: x => 0.5 * x * (1 + Math.tanh(tanhArgument(x))),
    slope: x => {
      const h = Math.tanh(tanhArgument(x));
      return 0.5 * (1 + h) + 0.5 * x * (1 - h * h) * tanhSlope(x);
    },
  },
  silu: { f: silu, slope: x => sigmoid(x) * (1 + x * (1 - sigmoid(x))) },
  sigmoid: { f: sigmoid, slope: x => sigmoid(x) * (1 - sigmoid(x)) },
  tanh: { f: Math.tanh, slope: x => 1 - Math.tanh(x) ** 2 },
};

export const ACTIVATIONS = Object.fromEntries(
  Object.entries(CURVES).map(([name, { f, slope }]) => [name, x => activation(x, f, slope)]),
);
ACTIVATIONS.gelu_new = ACTIVATIONS.gelu_tanh;

// ---------------------------------------------------------------- layer norm
//
// In four steps, each of them shown: m, s = 1 / √(variance + ε), n = (x - m) s and y = γ n + β. Together, of
// the gradient h with respect to n: dx = s (h - mean(h) - n mean(h n)). RMSNorm is the same with m = 0, no β.

/** m, the mean of each row: (T, 1). dx = g / D. */
export function meanOfRows(x) {
  const D = x.width;
  const data = new Float32Array(x.data.length / D);
  for (let t = 0; t < data.length; t++) data[t] = total(x.data, t * D, D) / D;
  return new Tensor([data.length, 1], data, [x], [g => x.data.map((_, i) => g[Math.floor(i / D)] / D)]);
}

/** The mean of all rows: (1, D). dx = g / T, the same for each. */
export function meanOfTokens(x) {
  const T = x.shape[0];
  const data = sumOfRows(x.data, x.width).map(value => value / T);
  return new Tensor([1, x.width], data, [x], [g => x.data.map((_, i) => g[i % x.width] / T)]);
}

/** u = x / |x|, of length 1. dx = (g - u (g · u)) / |x|. */
export function toUnitLength(x) {
  const length = Math.sqrt(dot(x.data, x.data, 0, x.width));
  const unit = x.data.map(value => value / length);
  const back = g => {
    const along = dot(g, unit, 0, x.width);
    return g.map((value, i) => (value - unit[i] * along) / length);
  };
  return new Tensor(x.shape, unit, [x], [back]);
}

function total(x, from, count) {
  let found = 0;
  for (let i = from; i < from + count; i++) found += x[i];
  return found;
}

/** s = 1 / √(mean((x - m)²) + ε) of each row. dx = -g s³ (x - m) / D, dm = g s³ mean(x - m). */
export function inverseDeviation(x, m, epsilon) {
  const D = x.width;
  const data = new Float32Array(x.data.length / D);
  for (let t = 0; t < data.length; t++) {
    let squares = 0;
    for (let i = t * D; i < (t + 1) * D; i++) squares += (x.data[i] - m.data[t]) ** 2;
    data[t] = 1 / Math.sqrt(squares / D + epsilon);
  }
  const toX = g =>
    x.data.map((value, i) => {
      const t = Math.floor(i / D);
      return (-g[t] * data[t] ** 3 * (value - m.data[t])) / D;
    });
  const toMean = g => {
    const dx = toX(g);
    return m.data.map((_, t) => -total(dx, t * D, D));
  };
  return new Tensor([data.length, 1], data, [x, m], [toX, toMean]);
}

/** n = (x - m) s. dx = g s, dm = -s Σ g, ds = Σ g (x - m), sums over a row. */
export function normalize(x, m, s) {
  const D = x.width;
  const centred = x.data.map((value, i) => value - m.data[Math.floor(i / D)]);
  const scaled = values => values.map((value, i) => value * s.data[Math.floor(i / D)]);
  return new Tensor(
    x.shape,
    scaled(centred),
    [x, m, s],
    [
      scaled,
      g => m.data.map((_, t) => -s.data[t] * total(g, t * D, D)),
      g => s.data.map((_, t) => dot(g, centred, t * D, D)),
    ],
  );
}

function dot(x, y, from, count) {
  let found = 0;
  for (let i = from; i < from + count; i++) found += x[i] * y[i];
  return found;
}

/** y = γ n + β, for n (T, D), γ (D), β (D) or null. dn = g γ, dγ = Σ g n, dβ = Σ g, sums over rows. */
export function gainAndBias(n, gain, bias) {
  const D = n.width;
  const data = n.data.map((value, i) => value * gain.data[i % D] + (bias ? bias.data[i % D] : 0));
  return new Tensor(n.shape, data, bias ? [n, gain, bias] : [n, gain], [
    g => g.map((value, i) => value * gain.data[i % D]),
    g =>
      sumOfRows(
        g.map((value, i) => value * n.data[i]),
        D,
      ),
    g => sumOfRows(g, D),
  ]);
}

// ---------------------------------------------------------------- attention

/** The matrix of head h of x (H, T, d), T d numbers. */
export function head(x, h) {
  const size = x.data.length / x.shape[0];
  return x.data.subarray(h * size, (h + 1) * size);
}

/**
 * q kᵀ of each head, for q (H, T, d) and k (K, S, d): (H, T, S). dq = g k, dk = gᵀ q. Of fewer heads of keys
 * (K < H), each serves H / K heads of queries, and its gradient is the sum of theirs.
 */
export function dotProducts(q, k) {
  const [H, T, d] = q.shape;
  const [K, S] = k.shape;
  const serving = h => Math.floor((h * K) / H);
  const data = ofHeads(H, [H, T, S], h => [h, timesTransposed(head(q, h), head(k, serving(h)), d)]);
  const headOf = (g, h) => g.subarray(h * T * S, (h + 1) * T * S);
  return new Tensor(
    [H, T, S],
    data,
    [q, k],
    [
      g => ofHeads(H, q.shape, h => [h, times(headOf(g, h), head(k, serving(h)), S)]),
      g => ofHeads(H, k.shape, h => [serving(h), times(transposed(headOf(g, h), S), head(q, h), T)]),
    ],
  );
}

/** a v of each head, for weights a (H, T, S) and v (K, S, d): (H, T, d). da = g vᵀ, dv = aᵀ g. */
export function weightedSums(a, v) {
  const [H, T, S] = a.shape;
  const [K, , d] = v.shape;
  const serving = h => Math.floor((h * K) / H);
  const data = ofHeads(H, [H, T, d], h => [h, times(head(a, h), head(v, serving(h)), S)]);
  const headOf = (g, h) => g.subarray(h * T * d, (h + 1) * T * d);
  return new Tensor(
    [H, T, d],
    data,
    [a, v],
    [
      g => ofHeads(H, a.shape, h => [h, timesTransposed(headOf(g, h), head(v, serving(h)), d)]),
      g => ofHeads(H, v.shape, h => [serving(h), times(transposed(head(a, h), S), headOf(g, h), T)]),
    ],
  );
}

/** The matrices that `part` gives for each of H heads, each added at its place in an array of this shape. */
function ofHeads(H, shape, part) {
  const found = new Float32Array(shape[0] * shape[1] * shape[2]);
  for (let h = 0; h < H; h++) {
    const [place, matrix] = part(h);
    addTo(found, matrix, place * matrix.length);
  }
  return found;
}

function addTo(x, y, from) {
  for (let i = 0; i < y.length; i++) x[from + i] += y[i];
}

/** x where visible(t, s), -∞ elsewhere. dx = g there, 0 elsewhere. */
export function hide(x, visible) {
  const [, T, S] = x.shape;
  const seen = new Uint8Array(T * S);
  for (let i = 0; i < seen.length; i++) seen[i] = visible(Math.floor(i / S), i % S);
  const data = x.data.map((value, i) => (seen[i % (T * S)] ? value : -Infinity));
  return new Tensor(x.shape, data, [x], [g => g.map((value, i) => (seen[i % (T * S)] ? value : 0))]);
}

/** p = exp(x) / Σ exp(x) in each row; 0 in a row of -∞. dx = p (g - Σ g p). */
export function softmax(x) {
  const S = x.width;
  const data = new Float32Array(x.data.length);
  for (let i = 0; i < data.length; i += S) data.set(softmaxOf(x.data.subarray(i, i + S)), i);
  const derivative = g => {
    const dx = new Float32Array(data.length);
    for (let row = 0; row < data.length; row += S) {
      const mean = dot(g, data, row, S);
      for (let i = row; i < row + S; i++) dx[i] = data[i] * (g[i] - mean);
    }
    return dx;
  };
  return new Tensor(x.shape, data, [x], [derivative]);
}

/** The probabilities of the logits `x`, in float64. */
export function softmaxOf(x) {
  const largest = maximum(x);
  const powers = new Float64Array(x.length);
  for (let i = 0; i < x.length; i++) powers[i] = x[i] === -Infinity ? 0 : Math.exp(x[i] - largest);
  const sum = total(powers, 0, powers.length);
  if (sum) for (let i = 0; i < x.length; i++) powers[i] /= sum;
  return powers;
}

export function maximum(x) {
  let found = -Infinity;
  for (let i = 0; i < x.length; i++) if (x[i] > found) found = x[i];
  return found;
}

/**
 * Each pair (a_i, b_i) of a head (a, b), rotated by its position times its frequency (Su et al. 2021). x (H, T, d);
 * the first position is `start`. The gradient is rotated by the negative angle.
 */
export function rotary(x, frequencies, start) {
  const [, T, d] = x.shape;
  const turned = (x, sign) => {
    const y = new Float32Array(x.length);
    for (let row = 0; row < x.length / d; row++) {
      for (let i = 0; i < d / 2; i++) {
        const angle = (start + (row % T)) * frequencies[i];
        const [cos, sin] = [Math.cos(angle), sign * Math.sin(angle)];
        const [a, b] = [x[row * d + i], x[row * d + d / 2 + i]];
        y[row * d + i] = a * cos - b * sin;
        y[row * d + d / 2 + i] = b * cos + a * sin;
      }
    }
    return y;
  };
  return new Tensor(x.shape, turned(x.data, 1), [x], [g => turned(g, -1)]);
}

// ---------------------------------------------------------------- the loss

/** -log p of the label of each row, p = softmax(logits). */
export function losses(logits, labels) {
  const V = logits.width;
  return labels.map((label, t) => {
    const row = logits.data.subarray(t * V, (t + 1) * V);
    const largest = maximum(row);
    let powers = 0;
    for (let i = 0; i < V; i++) powers += Math.exp(row[i] - largest);
    return Math.log(powers) + largest - row[label];
  });
}

/** The mean of -log p[label] over the rows `chosen`: N of them. dlogits = g (p - onehot(label)) / N there. */
export function crossEntropy(logits, labels, chosen) {
  const V = logits.width;
  const each = losses(logits, labels);
  const mean = chosen.reduce((sum, t) => sum + each[t], 0) / chosen.length;
  const derivative = ([g]) => {
    const dx = new Float32Array(logits.data.length);
    for (const t of chosen) {
      const p = softmaxOf(logits.data.subarray(t * V, (t + 1) * V));
      p[labels[t]] -= 1;
      dx.set(
        p.map(value => (g * value) / chosen.length),
        t * V,
      );
    }
    return dx;
  };
  return new Tensor([], Float32Array.of(mean), [logits], [derivative]);
}
