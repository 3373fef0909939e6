// Recurrent layers, as in record.py: one step for each token, from x_t and the state that the step before left.
//
// What a layer computes is recorded with a row for each step. The gradient of such a row is also that of all
// later steps, which it reaches through the state; so each row is a tensor of its own.

import { Place } from "./layers.js";
import { detached } from "./model.js";
import {
  ACTIVATIONS,
  Tensor,
  activation,
  add,
  alias,
  linear,
  multiply,
  part,
  sum,
  sumOfRows,
  times,
  timesTransposed,
  transposed,
} from "./tensors.js";

/** Recurrent layers one after another, from x (T, D); the state after each step of the last one (T, H). */
export function recurrentStack(at, x, c) {
  at.keep("input", x);
  let states = x;
  for (let i = 0; i < c.num_layers; i++) {
    states = recurrentLayer(new Place(at.run, `${at.path}.${i}`), states, c.rnn_type, `rnn.%_l${i}`);
  }
  return at.keep("output", alias(states));
}

/** The state after each step of a layer (T, H). `names` is the pattern of its weights' names. */
function recurrentLayer(at, x, type, names) {
  const weight = name => at.run.weights.get(names.replace("%", name));
  const fromState = stateProducts(weight("weight_hh"), weight("bias_hh"), x.shape[0]);
  const fromInput = at.keep("from_input", linear(x, weight("weight_ih"), weight("bias_ih")));
  const rowOfInput = partsOf(fromInput, fromInput.width);
  const H = weight("weight_hh").width;
  const zeros = new Tensor([1, H], new Float32Array(H));
  const rows = new Map(); // of each array, by its name
  const keep = (name, row) => {
    if (!rows.has(name)) rows.set(name, []);
    rows.get(name).push(row);
    return row;
  };
  let state = at.run.cache?.get(at.path) ?? { h: zeros, c: zeros };
  for (let t = 0; t < x.shape[0]; t++) {
    const { h, c } = at.options.memory ? state : { h: zeros, c: zeros };
    state = RECURRENT_STEPS[type](keep, rowOfInput(t), keep("from_state", fromState(h, t)), h, c);
  }
  at.run.cache?.set(at.path, { h: detached(state.h), c: detached(state.c) });
  for (const [name, steps] of rows) at.keep(name, stacked(steps));
  return at.run.results.get(`${at.path}.hidden`);
}

/**
 * h Wᵀ + b for the state before each of T steps: a function of h and the step. dh = g W. For dW = Σ gᵀ h and
 * db = Σ g the rows of g are collected: they are the gradient of a tensor that is 0 and added to each step.
 */
function stateProducts(W, b, T) {
  const [E, H] = W.shape;
  const before = new Float32Array(T * H);
  const all = new Tensor(
    [T, E],
    new Float32Array(T * E),
    [W, b],
    [g => times(transposed(g, E), before, T), g => sumOfRows(g, E)],
  );
  const added = partsOf(all, E);
  return (h, t) => {
    before.set(h.data, t * H);
    const y = W.products(h.data, H, E, 0, h => sum(timesTransposed(h, W.data, H), b.data));
    return new Tensor([1, E], y, [h, added(t)], [g => times(g, W.data, E), g => g]);
  };
}

/** One step, from a = W_ih x_t + b_ih and b = W_hh h_{t-1} + b_hh, which hold the parts of all gates. */
const RECURRENT_STEPS = {
  /** h_t = tanh(a + b) (Elman 1990). */
  rnn: (keep, a, b, h, c) => ({ h: keep("hidden", ACTIVATIONS.tanh(add(a, b))), c }),

  /** c_t = f c_{t-1} + i g and h_t = o tanh(c_t) (Hochreiter and Schmidhuber 1997; Gers et al. 2000). */
  lstm: (keep, a, b, h, c) => {
    const part = partsOf(add(a, b), h.width);
    const i = keep("input_gate", ACTIVATIONS.sigmoid(part(0)));
    const f = keep("forget_gate", ACTIVATIONS.sigmoid(part(1)));
    const g = keep("candidate", ACTIVATIONS.tanh(part(2)));
    const o = keep("output_gate", ACTIVATIONS.sigmoid(part(3)));
    const kept = keep("kept", multiply(f, c));
    const cell = keep("cell", add(kept, keep("added", multiply(i, g))));
    return { h: keep("hidden", multiply(o, keep("cell_tanh", ACTIVATIONS.tanh(cell)))), c: cell };
  },

  /** h_t = z h_{t-1} + (1 - z) n with n = tanh(a_n + r b_n) (Cho et al. 2014). */
  gru: (keep, a, b, h, c) => {
    const [ofInput, ofState] = [partsOf(a, h.width), partsOf(b, h.width)];
    const r = keep("reset_gate", ACTIVATIONS.sigmoid(add(ofInput(0), ofState(0))));
    const z = keep("update_gate", ACTIVATIONS.sigmoid(add(ofInput(1), ofState(1))));
    const n = keep("candidate", ACTIVATIONS.tanh(add(ofInput(2), multiply(r, ofState(2)))));
    const kept = keep("kept", multiply(z, h));
    return { h: keep("hidden", add(kept, keep("added", multiply(complement(z), n)))), c };
  },
};

/** Part i of x, each of `size` numbers: a gate's of a row, or a row. */
function partsOf(x, size) {
  return i => part(x, i * size, size);
}

/** 1 - x. dx = -g. */
function complement(x) {
  return activation(
    x,
    value => 1 - value,
    () => -1,
  );
}

/** Rows (1, D), one below the other: (T, D). The gradient of row t is row t of g. */
function stacked(rows) {
  const D = rows[0].width;
  const data = new Float32Array(rows.length * D);
  rows.forEach((row, t) => data.set(row.data, t * D));
  const derivatives = rows.map((_, t) => g => g.subarray(t * D, (t + 1) * D));
  return Object.assign(new Tensor([rows.length, D], data, rows, derivatives), { rows });
}
