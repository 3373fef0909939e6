// The families of models, as in minitransformer/models: each a few lines of stacks, embeddings and a head.
//
// A family has `states` (decoder-only models and encoders), or `encode` and `decode`; and `logits`. `c` is
// the model's configuration as Python has it; `start` the position of the first token, while generating.

import { GATED, LAYER, decoderStack, encoderStack, linearAt, normAt, sinusoids } from "./layers.js";
import { recurrentStack } from "./recurrent.js";
import {
  ACTIVATIONS,
  Tensor,
  add,
  alias,
  beside,
  cut,
  linear,
  lookup,
  meanOfTokens,
  scale,
  slice,
  stack,
  toUnitLength,
} from "./tensors.js";

export const FAMILIES = {
  /** "Attention Is All You Need" (Vaswani et al. 2017). */
  transformer: {
    isEncoderDecoder: true,
    maxLength: c => (c.positions === "learned" ? c.max_positions : null),
    encode: (run, c, source) => {
      const at = run.at("encoder");
      const x = transformerEmbedding(at, c, "embedding", source, 0);
      return encoderStack(at, x, { ...LAYER, ...c, num_layers: c.num_encoder_layers }, isReal(c, source));
    },
    decode: (run, c, target, memory, source, start) => {
      const at = run.at("decoder");
      const x = transformerEmbedding(at, c, targetTable(c), target, start);
      const layer = { ...LAYER, ...c, num_layers: c.num_decoder_layers };
      return decoderStack(at, x, memory, layer, isReal(c, source), c.is_causal);
    },
    logits: (run, c, states) => wordLogits(run, states, c.tie_embeddings ? targetTable(c) : null),
  },

  /** GPT-2 (Radford et al. 2019). */
  gpt2: {
    maxLength: c => (c.positions === "learned" ? c.n_positions : null),
    states: (run, c, ids, start) => {
      const at = run.at("layers");
      const x = withPositions(at, embedded(at, "embedding", ids), c, "positions", c.n_embd, start);
      const layer = {
        ...LAYER,
        num_layers: c.n_layer,
        num_heads: c.n_head,
        activation: c.activation_function,
        norm_first: c.norm_first,
        norm: c.norm,
        layer_norm_eps: c.layer_norm_epsilon,
        num_kv_heads: c.n_kv_head,
        head_dim: c.head_dim,
        positions: c.positions,
        rope_theta: c.rope_theta,
      };
      return encoderStack(at, x, layer, everyToken, c.is_causal);
    },
    logits: (run, c, states) => wordLogits(run, states, c.tie_word_embeddings ? "embedding" : null),
  },

  /** Llama (Touvron et al. 2023): RMSNorm, SwiGLU, rotary positions, no biases, grouped queries. */
  llama: {
    maxLength: () => null,
    states: (run, c, ids) => {
      const at = run.at("layers");
      const gates = { silu: "swiglu", gelu: "geglu", gelu_tanh: "geglu_tanh", gelu_new: "geglu_tanh" };
      const layer = {
        ...LAYER,
        ...c,
        num_layers: c.num_hidden_layers,
        num_heads: c.num_attention_heads,
        activation: gates[c.hidden_act],
        norm_first: true,
        norm: "rms_norm",
        layer_norm_eps: c.rms_norm_eps,
        num_kv_heads: c.num_key_value_heads,
        head_dim: c.head_dim,
        positions: "rotary",
      };
      return encoderStack(at, embedded(at, "embedding", ids), layer, everyToken, true);
    },
    logits: (run, c, states) => wordLogits(run, states, c.tie_word_embeddings ? "embedding" : null),
  },

  /** T5 (Raffel et al. 2020): a bias for each distance and no others, RMSNorm first, scores not scaled. */
  t5: {
    isEncoderDecoder: true,
    maxLength: () => null,
    encode: (run, c, source) => {
      const at = run.at("encoder");
      return encoderStack(at, embedded(at, "embedding", source), t5Layer(c, c.num_layers), isReal(c, source));
    },
    decode: (run, c, target, memory, source) => {
      const at = run.at("decoder");
      const layer = t5Layer(c, c.num_decoder_layers || c.num_layers);
      return decoderStack(at, embedded(at, "embedding", target), memory, layer, isReal(c, source));
    },
    logits: (run, c, states) => {
      const isScaled = c.scale_decoder_outputs ?? c.tie_word_embeddings;
      const x = isScaled ? run.at("head").keep("scaled", scale(states, c.d_model ** -0.5)) : states;
      return wordLogits(run, x, c.tie_word_embeddings ? "embedding" : null);
    },
  },

  /** BART (Lewis et al. 2019): learned positions, and a layer norm after the embeddings. */
  bart: {
    isEncoderDecoder: true,
    maxLength: c => c.max_position_embeddings,
    encode: (run, c, source) => {
      const at = run.at("encoder");
      const layer = bartLayer(c, c.encoder_layers, c.encoder_attention_heads);
      return encoderStack(at, bartEmbedding(at, c, source, 0), layer, isReal(c, source));
    },
    decode: (run, c, target, memory, source, start) => {
      const at = run.at("decoder");
      const layer = bartLayer(c, c.decoder_layers, c.decoder_attention_heads);
      return decoderStack(at, bartEmbedding(at, c, target, start), memory, layer, isReal(c, source));
    },
    logits: (run, c, states) =>
      linear(states, run.weights.get("embedding.weight"), run.weights.get("final_logits_bias")),
  },

  /** BERT (Devlin et al. 2018). */
  bert: {
    maxLength: c => (c.positions === "learned" ? c.max_position_embeddings : null),
    states: (run, c, ids, start, segments = ids.map(() => 0)) => {
      const at = run.at("encoder");
      const layer = {
        ...LAYER,
        num_layers: c.num_hidden_layers,
        num_heads: c.num_attention_heads,
        activation: c.hidden_act,
        positions: c.positions,
        norm: c.norm,
        norm_first: c.norm_first,
        layer_norm_eps: c.layer_norm_eps,
      };
      const words = embedded(at, "embedding", ids);
      const kinds = run.weights.get("token_types.weight"); // DistilBERT has none
      const x = kinds ? add(words, at.keep("segments", lookup(kinds, segments))) : words;
      const sum = at.keep("embedding_sum", withPositions(at, x, c, "positions", c.hidden_size, 0));
      return encoderStack(at, embeddingNorm(at, "norm", sum, layer), layer, isReal(c, ids));
    },
    logits: (run, c, states) => BERT_HEADS[c.head](run.at("head"), states, c),
  },

  /** ViT (Dosovitskiy et al. 2021): the tokens are squares of an image. */
  vit: {
    maxLength: () => null,
    states: (run, c, pixels) => {
      const at = run.at("encoder");
      const layer = {
        ...LAYER,
        num_layers: c.num_hidden_layers,
        num_heads: c.num_attention_heads,
        activation: c.hidden_act,
        positions: c.positions,
        norm_first: true,
        layer_norm_eps: c.layer_norm_eps,
      };
      const squares = patches(pixels, c);
      run.results.set("patches", squares);
      const x = at.keep("embedded", linearAt(run.at("patches.projection"), squares));
      const first = at.keep("class", alias(run.weights.get("class_token"), [1, c.hidden_size]));
      const tokens = at.keep("tokens", stack(first, x));
      const input = withPositions(at, tokens, c, "positions", c.hidden_size, 0);
      return encoderStack(at, input, layer, everyToken);
    },
    logits: (run, c, states) => linearAt(run.at("head"), run.at("head").keep("first", slice(states, 0, 1))),
  },

  /** A simple RNN, an LSTM or a GRU. */
  recurrent: {
    maxLength: () => null,
    states: (run, c, ids) => {
      const at = run.at("layers");
      return recurrentStack(at, embedded(at, "embedding", ids, Math.sqrt(c.embedding_dim)), c);
    },
    logits: (run, c, states) => wordLogits(run, states, c.tie_word_embeddings ? "embedding" : null),
  },
};

export const BERT_HEADS = {
  masked_lm: (at, states, c) => {
    const words = at.in("words");
    const activate = ACTIVATIONS[GATED[c.hidden_act] ?? c.hidden_act];
    const hidden = activate(at.keep("linear", linearAt(words.in("linear"), states)));
    const norm = normAt(words.in("norm"), at.keep("hidden", hidden), c, at.in("norm"));
    return linear(norm, at.run.weights.get("embedding.weight"), words.weight("bias"));
  },
  next_sentence: (at, states, c) => linearAt(at.in("next_sentence"), pooled(at, states, c)),
  classification: (at, states, c) => linearAt(at.in("classifier"), pooled(at, states, c)),
  token_classification: (at, states) => linearAt(at.in("classifier"), states),
  similarity: (at, states) => {
    const vector = at.keep("unit", toUnitLength(at.keep("average", meanOfTokens(states))));
    return linear(vector, at.weight("candidates"));
  },
};

/** tanh(W x + b) of the first token's state, which stands for the whole input; DistilBERT has relu instead. */
function pooled(at, states, c) {
  const first = at.keep("first", slice(states, 0, 1));
  return at.keep(
    "pooled",
    ACTIVATIONS[c.pooler_hidden_act](at.keep("linear", linearAt(at.in("pooler"), first))),
  );
}

// ---------------------------------------------------------------- what families share

const everyToken = () => true;

/** Whether a source token is no padding. */
function isReal(c, source) {
  return s => c.pad_token_id === null || source[s] !== c.pad_token_id;
}

function targetTable(c) {
  return c.target_vocab_size ? "target_embedding" : "embedding";
}

/** The rows of a matrix for the tokens, times √d_model if the model scales them. */
function embedded(at, table, ids, factor = 1) {
  const x = at.keep("embedded", lookup(at.run.weights.get(`${table}.weight`), ids));
  return factor === 1 ? x : at.keep("scaled", scale(x, factor));
}

/** x with absolute positions: their sum, or side by side. */
function withPositions(at, x, c, path, d_model, start) {
  if (!isSinusoidal(c) && c.positions !== "learned") return x;
  const T = x.shape[0];
  const width = c.concatenate_positions ? Math.floor(d_model / 2) : d_model;
  const p = at.keep("positions", positionVectors(at, c, path, start, T, width));
  return c.concatenate_positions ? beside(x, p) : add(x, p);
}

function isSinusoidal({ positions }) {
  return positions === "sinusoidal" || positions === "sinusoidal_halves";
}

function positionVectors(at, c, path, start, T, width) {
  if (!at.options.positions) return new Tensor([T, width], new Float32Array(T * width));
  if (isSinusoidal(c)) return sinusoids(start, T, width, c.positions === "sinusoidal_halves");
  const table = at.run.weights.get(`${path}.weight`);
  if (start + T > table.shape[0]) {
    throw new Error(
      `a sequence of ${start + T} tokens is longer than the ${table.shape[0]} positions of this model.\n` +
        "Shorten the input.",
    );
  }
  return slice(table, start, start + T);
}

/** The layer norm after embeddings, whose weights are at `path`. */
function embeddingNorm(at, path, x, c) {
  return normAt(at.run.at(path), x, c, at.in("embedding_norm"));
}

/** A score of each word: x Eᵀ with the token vectors E of a `table`, or the output layer's; and a bias. */
function wordLogits(run, x, table) {
  if (table === null) return linearAt(run.at("output"), x);
  const E = run.weights.get(`${table}.weight`);
  const words = x.width > E.width ? cut(x, 0, E.width) : x; // positions are beside the words
  return linear(words, E, run.weights.get(`${table}.output_bias`) ?? null);
}

function transformerEmbedding(at, c, table, ids, start) {
  const E = at.run.weights.get(`${table}.weight`);
  const x = embedded(at, table, ids, c.scale_embeddings ? Math.sqrt(E.width) : 1);
  return withPositions(at, x, c, `${at.path}_positions`, c.d_model, start);
}

export function t5Layer(c, num_layers) {
  const gated = { "gated-gelu": "geglu_tanh", "gated-gelu_python": "geglu", "gated-silu": "swiglu" };
  return {
    ...LAYER,
    num_layers,
    num_heads: c.num_heads,
    activation: gated[c.feed_forward_proj] ?? c.feed_forward_proj,
    norm_first: true,
    norm: "rms_norm",
    layer_norm_eps: c.layer_norm_epsilon,
    head_dim: c.d_kv,
    scale_scores: false,
    positions: "t5",
    num_buckets: c.relative_attention_num_buckets,
    max_distance: c.relative_attention_max_distance,
  };
}

function bartLayer(c, num_layers, num_heads) {
  return { ...LAYER, num_layers, num_heads, activation: c.activation_function };
}

function bartEmbedding(at, c, ids, start) {
  const x = embedded(at, "embedding", ids, c.scale_embedding ? Math.sqrt(c.d_model) : 1);
  const positions = `${at.path}_positions`;
  const sum = withPositions(at, x, { positions: "learned" }, positions, c.d_model, start);
  return embeddingNorm(at, `${at.path}_norm`, at.keep("embedding_sum", sum), LAYER);
}

/** An image (C, H, W) cut into squares of P × P pixels, in the order of reading: (N, C P P). */
function patches(pixels, c) {
  const [C, size, P] = [c.num_channels, c.image_size, c.patch_size];
  const n = size / P;
  const data = new Float32Array(C * size * size);
  let i = 0;
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      for (let channel = 0; channel < C; channel++) {
        for (let y = row * P; y < (row + 1) * P; y++) {
          const from = (channel * size + y) * size + column * P;
          for (let x = 0; x < P; x++) data[i++] = pixels[from + x];
        }
      }
    }
  }
  return new Tensor([n * n, C * P * P], data);
}
