// The model of the page: text to ids, ids to every activation, the loss to every gradient, and new texts.

import { beamSearch, continuation, distributionOf } from "./decoding.js";
import { LAYER, Run, alibiSlopes, bucket, normAt, rotaryFrequencies, wave } from "./layers.js";
import { BERT_HEADS, FAMILIES, t5Layer } from "./models.js";
import {
  CURVES,
  Tensor,
  Weight,
  crossEntropy,
  gradients,
  joined,
  losses,
  softmax,
  weightGradients,
} from "./tensors.js";
import { createTokenizer, markedTokens, strip } from "./tokenizers.js";

/** The model of a page's payload; an Error says what this script does not compute. */
export function createModel(payload) {
  checkSupported(payload);
  return new Model(payload);
}

function checkSupported({ model_type, config }) {
  if (!(model_type in FAMILIES)) {
    const known = Object.keys(FAMILIES).join(", ");
    throw new Error(`A model of type ${model_type} does not run in the page.\nThese do: ${known}.`);
  }
  if (model_type === "bert" && !(config.head in BERT_HEADS)) {
    const known = Object.keys(BERT_HEADS).join(", ");
    throw new Error(`A BERT with the head ${config.head} does not run in the page.\nThese do: ${known}.`);
  }
}

class Model {
  constructor({
    model_type,
    config,
    tokenizer,
    weights,
    start = null,
    input = {},
    max_length = null,
    generation,
  }) {
    this.family = FAMILIES[model_type];
    this.config = config;
    this.start = start; // the first token of every target
    this.limit = max_length; // of tokens on a side
    this.generation = generation ?? {}; // options of `generate`, of an imported model
    this.input = { before: [], after: [], marks: [], strip: true, reading: "text", ...input };
    this.tokenizer = tokenizer ? createTokenizer(tokenizer) : null;
    const tensors = Object.entries(weights).map(([name, w]) => [name, new Weight(w.shape, w.data)]);
    this.weights = new Map(tensors);
  }

  // -------------------------------------------------------------- texts

  /** The ids and tokens of a text, and at which places a token is unknown. */
  tokenize(text) {
    return this.tokenizer.encode(this.input.strip ? strip(text) : text);
  }

  /** The same of a target, such as a translation. */
  tokenizeTarget(text) {
    return this.tokenizer.encodeTarget(this.input.strip ? strip(text) : text);
  }

  decode(ids) {
    return this.tokenizer.decode(ids);
  }

  /** The ids of a text as the model is given them; an Error if there are none, or too many. */
  sourceIds(text) {
    return this.sourceTokens(text).map(({ id }) => id);
  }

  /** The same with the `text` that each token stands for; of what is added to the text, none. */
  sourceTokens(text) {
    const added = ids => ids.map(id => ({ id, text: null }));
    const { before, after } = this.input;
    const words = this.textTokens(this.input.strip ? strip(text) : text);
    const ids = [...added(before), ...words, ...added(after)];
    if (!words.length) throw new Error("The text has no words.\nType at least one.");
    if (this.limit !== null && ids.length > this.limit) {
      const most = this.limit - ids.length + words.length;
      throw new Error(`A text of ${words.length} tokens, but this model takes at most ${most}.\nShorten it.`);
    }
    return ids;
  }

  /** The tokens of a text, or of each of its words, or of its characters with spaces between them. */
  textTokens(text) {
    const parts = text.split(/\s+/).filter(Boolean);
    if (this.input.reading === "words") return parts.flatMap(word => this.tokenizer.encodeWord(word));
    const read = this.input.reading === "characters" ? [...parts.join("")].join(" ") : text;
    return markedTokens(this.tokenizer, read, this.input.marks);
  }

  // -------------------------------------------------------------- forward and backward

  /** One pass: every activation by its name, in the order of computation. */
  run({ source, target = null, segments }, options = {}) {
    const run = new Run(this.weights, options);
    const { family, config } = this;
    let states;
    if (family.isEncoderDecoder) {
      const memory = family.encode(run, config, source);
      states = family.decode(run, config, target, memory, source, 0);
    } else {
      states = family.states(run, config, source, 0, segments);
    }
    const logits = family.logits(run, config, states);
    run.results.set("logits", logits);
    run.results.set("probabilities", softmax(logits));
    for (const weight of this.weights.values()) weight.age();
    const arrays = Object.fromEntries(run.results);
    return { arrays, source, target, order: [...run.results.keys()], options: run.options };
  }

  /**
   * The gradients of the mean cross-entropy of the labels at `positions` (null: all). Those of the `weights`,
   * which take as long as the others, are computed when they are asked for.
   */
  backward(record, { labels, positions = null }) {
    const { weights } = this;
    const { logits } = record.arrays;
    const loss = crossEntropy(logits, labels, positions ?? labels.map((_, t) => t));
    const found = gradients(loss);
    const named = (tensors, gradients) => {
      const gradientOf = tensor => gradients.get(tensor) ?? new Float32Array(tensor.data.length);
      const gradient = ([name, tensor]) => {
        const data = tensor.rows ? joined(tensor.rows.map(gradientOf)) : gradientOf(tensor);
        return [name, { shape: tensor.shape, data }];
      };
      return Object.fromEntries([...tensors].map(gradient));
    };
    let ofWeights = null;
    return {
      loss: loss.data[0],
      losses: losses(logits, labels),
      activations: named(Object.entries(record.arrays), found),
      get weights() {
        ofWeights ??= named(weights, weightGradients(loss, found));
        return ofWeights;
      },
    };
  }

  /** The loss of the label of each row, -log of its probability. */
  losses({ arrays: { logits } }, labels) {
    return losses(logits, labels);
  }

  /** The probabilities of words if a state were the last: through a norm (its path and settings), and the head. */
  lens(state, norm = null) {
    const run = new Run(this.weights);
    const x = new Tensor([1, state.length], Float32Array.from(state));
    const last = norm ? normAt(run.at(norm.path), x, norm) : x;
    return softmax(this.family.logits(run, this.config, last)).data;
  }

  // -------------------------------------------------------------- new texts

  distribution(logits, settings) {
    return distributionOf(logits, settings);
  }

  // -------------------------------------------------------------- parts that the page explains

  /** An activation `f` and its derivative, the `slope`. */
  activation(name) {
    return CURVES[name];
  }

  /** The row of T5's biases for a distance, the key's position minus the query's. */
  bucketOf(distance, isCausal) {
    return bucket(distance, t5Layer(this.config, 0), !isCausal);
  }

  /** The frequency of each pair of a head's columns, of rotary positions. */
  rotaryFrequencies(width) {
    return rotaryFrequencies({ ...LAYER, ...this.config }, width);
  }

  /** What a column of sinusoidal positions is: the function, its pair, and what positions are divided by. */
  wave(column, width, halves) {
    return wave(column, width, halves);
  }

  /** ALiBi's slopes. */
  slopes(heads) {
    return alibiSlopes(heads);
  }

  /** Greedy search, or with `sample` tokens drawn from the distribution. */
  generate(source, settings = {}, options = {}) {
    const decoder = this.decoder(source, options);
    return continuation(decoder, this.ends, this.countOf(source, settings), settings);
  }

  beams(source, settings = {}, options = {}) {
    const decoder = this.decoder(source, options);
    return beamSearch(decoder, this.ends, this.countOf(source, settings), settings);
  }

  /** The tokens that end a text. */
  get ends() {
    return [this.generation.eos_token_id ?? this.config.eos_token_id ?? []].flat();
  }

  /** The most tokens of a text: a model that has learned little may never end it. */
  limitOf(source) {
    if (!this.family.isEncoderDecoder) return 64;
    const most = (this.family.maxLength(this.config) ?? Infinity) - 1; // without the start token
    return Math.min(this.limit ?? Infinity, 10 * source.length + 100, most);
  }

  /** How many tokens are written: fewer than the text may have, if only its beginning is shown. */
  countOf(source, { maxNew = null }) {
    return Math.min(maxNew ?? Infinity, this.limitOf(source));
  }

  decoder(source, options) {
    const memory = this.family.isEncoderDecoder
      ? detached(this.family.encode(new Run(this.weights, options), this.config, source))
      : null;
    const ids = memory ? [this.start] : source;
    const canCache = (this.config.is_causal ?? true) && (options.causal ?? true);
    const setting = { source, memory, options, canCache, start: ids.length, limit: this.limitOf(source) };
    return new Decoder(this, setting, ids, [], new Map());
  }
}

/** A text so far: `past` tokens are in the cache, `ids` follow. */
class Decoder {
  constructor(model, setting, ids, past, cache) {
    Object.assign(this, { model, setting, ids, past, cache });
  }

  /** The logits of the next token. */
  logits() {
    this.found ??= this.compute();
    return this.found;
  }

  compute() {
    const { family, config, weights } = this.model;
    const { source, memory, options, canCache } = this.setting;
    const all = [...this.past, ...this.ids];
    const most = family.maxLength(config);
    const isWindow = most !== null && all.length > most; // each token has moved by a position: none is cached
    const cached = canCache && !isWindow;
    const ids = cached ? this.ids : all.slice(isWindow ? -most : 0);
    const start = cached ? this.past.length : 0;
    this.cache = new Map(this.cache);
    const run = new Run(weights, options, cached ? this.cache : null);
    const states = memory
      ? family.decode(run, config, ids, memory, source, start)
      : family.states(run, config, ids, start);
    return family.logits(run, config, detached(states, states.shape[0] - 1)).data;
  }

  /** The token that the model must write: the first of a text, or the last of one that reaches its limit. */
  get forced() {
    const { forced_bos_token_id: first = null, forced_eos_token_id: last = null } = this.model.generation;
    if (last !== null && this.written === this.setting.limit - 1) return last;
    return this.written === 0 ? first : null;
  }

  /** The tokens that the model must not write. */
  get suppressed() {
    const { suppress_tokens: tokens = [], min_new_tokens: least = 0 } = this.model.generation;
    return this.written < least ? [...tokens, ...this.model.ends] : tokens;
  }

  /** The number of new tokens. */
  get written() {
    return this.past.length + this.ids.length - this.setting.start;
  }

  get history() {
    return [...this.past, ...this.ids];
  }

  get penalty() {
    return this.model.generation.repetition_penalty ?? 1;
  }

  get ngramSize() {
    return this.model.generation.no_repeat_ngram_size ?? 0;
  }

  get renormalizes() {
    return this.model.generation.renormalize_logits ?? false;
  }

  /** The text with one more token. */
  after(token) {
    this.logits();
    return new Decoder(this.model, this.setting, [token], [...this.past, ...this.ids], this.cache);
  }
}

/** The rows of a tensor from one on, without what they were computed from. */
export function detached(x, from = 0) {
  const data = x.data.subarray(from * x.width);
  return new Tensor([x.shape[0] - from, x.width], data);
}
