// The layers, as in minitransformer/layers: each takes its place, `at`, first.
//
// A place is a module's path in a run, such as "encoder.layers.0.self_attention": its weights stand there, and
// its results are recorded there, under the names of record.py. `c` are the settings of Python's LayerConfig.

import {
  ACTIVATIONS,
  Tensor,
  add,
  alias,
  cut,
  dotProducts,
  gainAndBias,
  head,
  hide,
  inverseDeviation,
  joinHeads,
  linear,
  lookup,
  meanOfRows,
  multiply,
  normalize,
  rotary,
  scale,
  softmax,
  splitHeads,
  transposed,
  weightedSums,
} from "./tensors.js";

/** The model on one input: weights, switches, results by name, and the cache while text is generated. */
export class Run {
  constructor(weights, options = {}, cache = null) {
    this.weights = weights;
    this.options = { causal: true, positions: true, scale: true, memory: true, ablated: {}, ...options };
    this.cache = cache;
    this.results = new Map();
  }

  at(path) {
    return new Place(this, path);
  }
}

export class Place {
  constructor(run, path) {
    Object.assign(this, { run, path, options: run.options });
  }

  in(name) {
    return new Place(this.run, `${this.path}.${name}`);
  }

  /** A weight of this module; null if it has none of that name. */
  weight(name) {
    return this.run.weights.get(`${this.path}.${name}`) ?? null;
  }

  /** Records a result, and gives it back. */
  keep(name, result) {
    this.run.results.set(`${this.path}.${name}`, result);
    return result;
  }
}

/** The settings that most families share: the defaults of LayerConfig. */
export const LAYER = {
  activation: "relu",
  norm_first: false,
  layer_norm_eps: 1e-5,
  norm: "layer_norm",
  num_kv_heads: null,
  head_dim: null,
  scale_scores: true,
  positions: "none",
  rope_theta: 10000,
  num_buckets: 32,
  max_distance: 128,
};

/** activation(x W_1) ∘ x W_3 (Shazeer 2020): the activation of each. */
export const GATED = { swiglu: "silu", geglu: "gelu", geglu_tanh: "gelu_tanh" };

// ---------------------------------------------------------------- sub-layers

/** The linear layer of a place. */
export function linearAt(at, x) {
  return linear(x, at.weight("weight"), at.weight("bias"));
}

/** Layer norm, or RMSNorm: γ (x - m) s + β. Its results may be recorded at another place, `as`. */
export function normAt(at, x, c, as = at) {
  const isRms = c.norm === "rms_norm";
  const rows = x.shape[0];
  const m = isRms ? new Tensor([rows, 1], new Float32Array(rows)) : as.keep("mean", meanOfRows(x));
  const s = as.keep("rstd", inverseDeviation(x, m, c.layer_norm_eps));
  const n = as.keep("normalized", normalize(x, m, s));
  return as.keep("output", gainAndBias(n, at.weight("weight"), at.weight("bias")));
}

/** FFN(x) = activation(x W_1 + b_1) W_2 + b_2 (section 3.3), with a gate if the activation has one. */
function feedForward(at, x, c) {
  const activate = ACTIVATIONS[GATED[c.activation] ?? c.activation];
  let hidden = activate(at.keep("linear1", linearAt(at.in("linear1"), x)));
  if (c.activation in GATED) {
    hidden = multiply(hidden, at.keep("linear3", linearAt(at.in("linear3"), x)));
  }
  return at.keep("output", linearAt(at.in("linear2"), at.keep("hidden", hidden)));
}

/** norm(x + f(x)), or x + f(norm(x)) if the norm is first. */
function residual(at, x, c, f) {
  if (c.norm_first) return at.keep("sum", add(x, f(normAt(at.in("norm"), x, c))));
  return normAt(at.in("norm"), at.keep("sum", add(x, f(x))), c);
}

/**
 * Concat(head_1, ..., head_h) W_O with head_i = softmax(Q_i K_iᵀ / √d) V_i (section 3.2). Queries are from x,
 * keys and values from `memory`, or also from x. visible(t, s): may query t attend to key s?
 */
function multiHeadAttention(at, x, memory, c, visible, bias = null) {
  const { q, k, v } = project(at, x, memory, c);
  const width = q.width;
  const scaled = c.scale_scores && at.options.scale ? width ** -0.5 : 1;
  let scores = at.keep("scaled", scale(at.keep("scores", dotProducts(q, k)), scaled));
  if (bias) scores = add(scores, at.keep("bias", alias(bias)));
  const weights = at.keep("weights", softmax(at.keep("masked", hide(scores, visible))));
  const heads = at.keep("heads", ablate(weightedSums(weights, v), at.options.ablated[at.path] ?? []));
  return at.keep("output", linearAt(at.in("out_proj"), at.keep("concat", joinHeads(heads))));
}

/** Q, K and V of all heads. Their matrices are stacked in one, as in PyTorch's module. */
function project(at, x, memory, c) {
  const [W, b] = [at.weight("in_proj_weight"), at.weight("in_proj_bias")];
  const [H, K] = [c.num_heads, c.num_kv_heads ?? c.num_heads];
  const d = c.head_dim ?? x.width / H;
  const [forKeys, forValues, end] = [H * d, (H + K) * d, (H + 2 * K) * d]; // the rows of W, from 0
  const cached = at.run.cache?.get(at.path);
  const packed = linear(x, W, b, [0, memory ? forKeys : end]);
  let q = splitHeads(cut(packed, 0, forKeys), H);
  if (memory && cached) return { q, ...cached };
  const [kv, offset] = memory ? [linear(memory, W, b, [forKeys, end]), forKeys] : [packed, 0];
  let k = splitHeads(cut(kv, forKeys - offset, forValues - offset), K);
  let v = splitHeads(cut(kv, forValues - offset, end - offset), K);
  if (!memory && c.positions === "rotary") {
    const start = cached ? cached.k.shape[1] : 0;
    const rotate = x => (at.options.positions ? rotary(x, rotaryFrequencies(c, d), start) : alias(x));
    q = rotate(at.keep("q_unrotated", q));
    k = rotate(at.keep("k_unrotated", k));
  }
  if (cached) [k, v] = [append(cached.k, k), append(cached.v, v)];
  at.run.cache?.set(at.path, { k, v });
  return { q: at.keep("q", q), k: at.keep("k", k), v: at.keep("v", v) };
}

/** Keys or values (H, S, d) of the tokens so far, followed by new ones: while text is generated. */
function append(before, after) {
  const [H, S, d] = before.shape;
  const T = after.shape[1];
  const data = new Float32Array(H * (S + T) * d);
  for (let h = 0; h < H; h++) {
    data.set(head(before, h), h * (S + T) * d);
    data.set(head(after, h), (h * (S + T) + S) * d);
  }
  return new Tensor([H, S + T, d], data);
}

/** 0 in place of these heads. */
function ablate(heads, which) {
  if (!which.length) return heads;
  const size = heads.data.length / heads.shape[0];
  const kept = heads.data.map((_, i) => (which.includes(Math.floor(i / size)) ? 0 : 1));
  return multiply(heads, new Tensor(heads.shape, kept));
}

// ---------------------------------------------------------------- stacks of layers

/** N encoder layers; also of a decoder-only model, which is causal. `real(s)`: is token s no padding? */
export function encoderStack(at, x, c, real, isCausal = false) {
  at.keep("input", x);
  const past = pastOf(at);
  const bias = positionBias(at, x, c, past, isCausal);
  const causal = isCausal && at.options.causal;
  const visible = (t, s) => real(s) && (!causal || s <= past + t);
  for (let i = 0; i < c.num_layers; i++) {
    const layer = at.in(`layers.${i}`);
    const attend = y => multiHeadAttention(layer.in("self_attention"), y, null, c, visible, bias);
    x = residual(layer.in("residual1"), x, c, attend);
    x = residual(layer.in("residual2"), x, c, y => feedForward(layer.in("feed_forward"), y, c));
  }
  return at.keep("output", c.norm_first ? normAt(at.in("norm"), x, c) : x);
}

/** N decoder layers, which also attend to the encoder's output, the memory. */
export function decoderStack(at, x, memory, c, real, isCausal = true) {
  at.keep("input", x);
  const past = pastOf(at);
  const bias = positionBias(at, x, c, past, isCausal);
  const causal = isCausal && at.options.causal;
  const visible = (t, s) => !causal || s <= past + t;
  for (let i = 0; i < c.num_layers; i++) {
    const layer = at.in(`layers.${i}`);
    const attend = y => multiHeadAttention(layer.in("self_attention"), y, null, c, visible, bias);
    const read = y => multiHeadAttention(layer.in("cross_attention"), y, memory, c, (t, s) => real(s));
    x = residual(layer.in("residual1"), x, c, attend);
    x = residual(layer.in("residual2"), x, c, read);
    x = residual(layer.in("residual3"), x, c, y => feedForward(layer.in("feed_forward"), y, c));
  }
  return at.keep("output", c.norm_first ? normAt(at.in("norm"), x, c) : x);
}

/** How many tokens are in the cache of a stack. */
function pastOf(at) {
  return at.run.cache?.get(at.in("layers.0.self_attention").path)?.k.shape[1] ?? 0;
}

// ---------------------------------------------------------------- positions

/** PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(the same) (section 3.5). */
export function sinusoids(start, length, width, halves) {
  const data = new Float32Array(length * width);
  for (let i = 0; i < data.length; i++) {
    const { f, scale } = wave(i % width, width, halves);
    data[i] = Math[f]((start + Math.floor(i / width)) / scale);
  }
  return new Tensor([length, width], data);
}

/** Column j of the sinusoids: f(pos / scale). With `halves`, all sines come first, then all cosines. */
export function wave(j, width, halves) {
  const sines = Math.ceil(width / 2);
  const isCosine = halves ? j >= sines : j % 2 === 1;
  const pair = halves ? j % sines : Math.floor(j / 2);
  return { f: isCosine ? "cos" : "sin", pair, scale: 10000 ** ((2 * pair) / width) };
}

/** θ^(-2i / d) for each pair i of a head of width d; lower if they are scaled, as in RotaryScaling. */
export function rotaryFrequencies(c, d) {
  const frequencies = Array.from({ length: d / 2 }, (_, i) => c.rope_theta ** ((-2 * i) / d));
  if (c.rope_type === "linear") return frequencies.map(f => f / c.rope_factor);
  if (c.rope_type !== "llama3") return frequencies;
  const [low, high] = [c.low_freq_factor, c.high_freq_factor];
  return frequencies.map(f => {
    const turns = (c.original_max_position_embeddings * f) / (2 * Math.PI);
    const kept = Math.min(Math.max((turns - low) / (high - low), 0), 1);
    return kept * f + ((1 - kept) * f) / c.rope_factor;
  });
}

/** What a stack adds to the scores of all its layers, (H, T, S), for the last T of S positions; or null. */
function positionBias(at, x, c, past, isCausal) {
  const T = x.shape[0];
  const [H, S] = [c.num_heads, past + T];
  if (c.positions !== "alibi" && c.positions !== "t5") return null;
  if (!at.options.positions) return new Tensor([H, T, S], new Float32Array(H * T * S));
  return c.positions === "alibi" ? alibi(H, T, S) : relativeBias(at.in("positions"), c, T, S, isCausal);
}

/** Minus the distance of query and key, times a slope for each head (Press et al. 2022). */
function alibi(H, T, S) {
  const slopes = alibiSlopes(H);
  const data = new Float32Array(H * T * S);
  for (let i = 0; i < data.length; i++) {
    const [h, t, s] = [Math.floor(i / (T * S)), Math.floor(i / S) % T, i % S];
    data[i] = -slopes[h] * Math.abs(s - (S - T + t));
  }
  return new Tensor([H, T, S], data);
}

/** 2^(-8/n), 2^(-16/n), ..., 2^-8; beyond a power of two, every other one of the next power's. */
export function alibiSlopes(H) {
  const lower = 2 ** Math.floor(Math.log2(H));
  const slopes = n => Array.from({ length: n }, (_, i) => 2 ** ((-8 / n) * (i + 1)));
  const others = slopes(2 * lower).filter((_, i) => i % 2 === 0);
  return [...slopes(lower), ...others].slice(0, H).map(Math.fround);
}

/** A learned number for each head and bucket of distances (Raffel et al. 2020). */
function relativeBias(at, c, T, S, isCausal) {
  const ids = Array.from({ length: T * S }, (_, i) => (i % S) - (S - T + Math.floor(i / S)));
  const rows = lookup(
    at.weight("weight"),
    ids.map(distance => bucket(distance, c, !isCausal)),
  ); // (T S, H)
  const H = c.num_heads;
  return new Tensor([H, T, S], transposed(rows.data, H), [rows], [g => transposed(g, T * S)]);
}

/**
 * The bucket of a distance, the key's position minus the query's. Short distances have a bucket each; longer
 * ones share buckets of equal width in the logarithm. In float32, as in Python: at the edges, rounding decides.
 */
export function bucket(distance, c, bidirectional) {
  const size = Math.floor(c.num_buckets / (bidirectional ? 2 : 1));
  const exact = Math.floor(c.num_buckets / (bidirectional ? 4 : 2));
  const length = bidirectional ? Math.abs(distance) : Math.max(-distance, 0);
  const later = bidirectional && distance > 0 ? size : 0;
  if (length < exact) return later + length;
  const f = Math.fround;
  const steps = f(f(Math.log(f(length / exact))) / f(Math.log(c.max_distance / exact)));
  return later + Math.min(exact + Math.trunc(f(steps * (size - exact))), size - 1);
}
