// From logits to text: the next token's distribution, greedy search and sampling, and beam search.
//
// As in minitransformer/generation, for one input at a time. A decoder gives the logits of the next token,
// and keeps keys and values of the tokens so far. It never changes: `after` makes another, so that several
// beams may continue one.

import { maximum, softmaxOf } from "./tensors.js";

// ---------------------------------------------------------------- one step

/** The next token's probabilities, in float64: of what temperature, top-k and top-p leave, 0 elsewhere. */
export function distributionOf(logits, { temperature = 1, topK = null, topP = 1 } = {}) {
  const largest = maximum(logits);
  let scores = new Float64Array(logits.length);
  for (let i = 0; i < scores.length; i++) scores[i] = (logits[i] - largest) / temperature;
  if (topK !== null) scores = keepTopK(scores, topK);
  if (topP < 1) scores = keepTopP(scores, topP);
  return softmaxOf(scores);
}

/** -∞ for all but the k largest, and those equal to the smallest of them (Fan et al. 2018). */
function keepTopK(scores, k) {
  const smallest = scores.toSorted().at(-Math.min(k, scores.length));
  return scores.map(score => (score < smallest ? -Infinity : score));
}

/** -∞ for all but the fewest likeliest tokens that have a probability of p together (Holtzman et al. 2020). */
function keepTopP(scores, p) {
  const probabilities = softmaxOf(scores);
  const kept = scores.map(() => -Infinity);
  let likelier = 0;
  for (const i of descending(scores)) {
    if (likelier >= p) break;
    kept[i] = scores[i];
    likelier += probabilities[i];
  }
  return kept;
}

/** The indices of the largest scores first; of equal ones, the first first. */
function descending(scores) {
  return Array.from(scores.keys()).sort((i, j) => scores[j] - scores[i]);
}

/** log p_i = x_i - log Σ exp(x_j), in float32. */
function logSoftmax(x) {
  const largest = maximum(x);
  let powers = 0;
  for (let i = 0; i < x.length; i++) powers += Math.exp(x[i] - largest);
  const offset = largest + Math.log(powers);
  return Float32Array.from(x, value => value - offset);
}

/** Scores as the options of a pretrained model change them: -∞ for what a decoder must not write next. */
function allowed(scores, { forced, suppressed, history, penalty, ngramSize }) {
  if (forced !== null) return scores.map((_, i) => (i === forced ? 0 : -Infinity));
  const found = scores.slice();
  for (const i of penalty === 1 ? [] : new Set(history))
    found[i] = found[i] < 0 ? found[i] * penalty : found[i] / penalty;
  const kept = withoutRepeated(found, history, ngramSize);
  for (const i of suppressed) kept[i] = -Infinity;
  return kept;
}

/** -∞ for each token that would repeat `size` tokens of the history, unless that leaves none. */
function withoutRepeated(scores, history, size) {
  const found = scores.slice();
  const start = history.length + 1 - size; // of the n-gram that the next token ends
  for (let at = 0; size > 0 && at < start; at++) {
    if (history.slice(at, at + size - 1).every((id, k) => id === history[start + k]))
      found[history[at + size - 1]] = -Infinity;
  }
  return found.some(score => score > -Infinity) ? found : scores;
}

function argmax(x) {
  return x.indexOf(maximum(x));
}

/** A token, drawn from a distribution with a number between 0 and 1. */
function draw(distribution, number) {
  let sum = 0;
  for (let i = 0; i < distribution.length; i++) {
    sum += distribution[i];
    if (number < sum) return i;
  }
  return argmax(distribution);
}

/** Numbers between 0 and 1 from a seed (the generator mulberry32). */
function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// ---------------------------------------------------------------- greedy search and sampling

/** The tokens that follow: the likeliest at each step, or with `sample` one drawn from the distribution. */
export function continuation(decoder, ends, limit, { sample = false, seed = 0, ...settings } = {}) {
  const next = uniforms(seed);
  const ids = [];
  while (ids.length < limit) {
    const logits = allowed(decoder.logits(), decoder);
    const token = sample ? draw(distributionOf(logits, settings), next()) : argmax(logits);
    if (ends.includes(token)) return { ids, stopped: true };
    ids.push(token);
    if (ids.length < limit) decoder = decoder.after(token);
  }
  return { ids, stopped: false };
}

// ---------------------------------------------------------------- beam search

/**
 * Each step keeps the `beams` best hypotheses. The score of an unfinished one is the sum of its tokens'
 * log-probabilities; a finished one's is divided by the length penalty.
 *
 * Returns `texts`, the finished ones, best first; `best`, the ids of the first; and the tree, `steps`: in
 * each the tokens that were added, best first, with their parents' indices in the step before (-1: the start).
 */
export function beamSearch(decoder, ends, limit, options) {
  const { beams = 4, lengthPenalty = 1, form = "huggingface", early = false } = options;
  const penalty = length => (form === "gnmt" ? (5 + length) / 6 : length) ** lengthPenalty;
  const width = Math.max(2, 1 + ends.length) * beams; // of so many candidates, at least `beams` do not end
  const steps = [];
  let texts = [];
  let hypotheses = [{ decoder, ids: [], score: 0, node: -1 }];
  for (let length = 1; length <= limit; length++) {
    const candidates = bestCandidates(hypotheses, width);
    for (const candidate of candidates) {
      const isEnd = ends.includes(candidate.token);
      candidate.ends = isEnd || length === limit;
      candidate.ids = isEnd ? candidate.parent.ids : [...candidate.parent.ids, candidate.token];
    }
    const finished = candidates.slice(0, beams).filter(each => each.ends && each.score > -Infinity);
    texts.push(...finished.map(each => ({ ids: each.ids, score: each.score / penalty(length) })));
    texts = texts.sort((a, b) => b.score - a.score).slice(0, beams);
    let kept = candidates.filter(each => !each.ends).slice(0, beams);
    if (!mayImprove(texts, kept, { beams, early, lengthPenalty, penalty, length, limit })) kept = [];
    if (finished.length + kept.length) steps.push(newStep(finished, kept));
    if (!kept.length) break;
    hypotheses = kept.map(({ parent, token, ids, score, node }) => {
      return { decoder: parent.decoder.after(token), ids, score, node };
    });
  }
  return { texts, best: texts.length ? texts[0].ids : [], steps };
}

/** The best continuations of all hypotheses by a token, best first. */
function bestCandidates(hypotheses, width) {
  const found = hypotheses.flatMap(parent => {
    const scores = allowed(logSoftmax(parent.decoder.logits()), parent.decoder);
    const logProbabilities = parent.decoder.renormalizes ? logSoftmax(scores) : scores;
    const best = descending(logProbabilities).slice(0, width);
    return best.map(token => {
      const logProbability = logProbabilities[token];
      return { parent, token, logProbability, score: Math.fround(parent.score + logProbability) };
    });
  });
  return found.sort((a, b) => b.score - a.score).slice(0, width);
}

/** Whether a beam may lead to a text better than the worst of `texts`, as if it ended now. */
function mayImprove(texts, kept, { beams, early, lengthPenalty, penalty, length, limit }) {
  const score = kept.length ? kept[0].score : -Infinity;
  if (score === -Infinity || texts.length < beams) return score > -Infinity;
  if (early === true) return false;
  const end = early === "never" && lengthPenalty > 0 ? limit : length; // the length that is best for it
  return score / penalty(end) > texts.at(-1).score;
}

/** The nodes of a step of the tree: tokens that end a text, and those of the beams. */
function newStep(finished, kept) {
  const nodes = [...finished, ...kept].sort((a, b) => b.score - a.score);
  nodes.forEach((each, i) => (each.node = i));
  return nodes.map(each => ({
    token: each.token,
    parent: each.parent.node,
    logProbability: each.logProbability,
    score: each.score,
    kept: kept.includes(each),
    finished: finished.includes(each),
  }));
}
