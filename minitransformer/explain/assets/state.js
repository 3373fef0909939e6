// What is shown: the sentence, the switches, the place on the page, and the record that follows from them.

import { range } from "./derive.js";
import { shownToken } from "./elements.js";
import { createModel } from "./model/model.js";
import { rowOf } from "./numbers.js";
import { pixelsOf } from "./pixels.js";
import { makePlan } from "./plan.js";

export const listeners = [];

/** Read the data of the page: text that no browser runs. */
export function readPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.isQuantized = Object.values(data.weights).some(({ scale }) => scale !== undefined);
  const { buffer } = fromBase85(document.getElementById("weights").textContent);
  data.weights = Object.fromEntries(
    Object.entries(data.weights).map(([name, { shape, at, scale }]) => {
      const size = shape.reduce((product, n) => product * n, 1);
      const numbers =
        scale === undefined
          ? new Float32Array(buffer, 4 * at, size)
          : scaledRows(new Int8Array(buffer, 4 * at, size), new Float32Array(buffer, 4 * scale, shape[0]));
      return [name, { shape, data: numbers }];
    }),
  );
  document.getElementById("weights").remove();
  return data;
}

/** A matrix of 8-bit integers, each row times its scale. */
function scaledRows(integers, scales) {
  const width = integers.length / scales.length;
  const numbers = new Float32Array(integers.length);
  scales.forEach((scale, row) => {
    for (let i = row * width; i < (row + 1) * width; i++) numbers[i] = scale * integers[i];
  });
  return numbers;
}

/** 32 bits of five letters each, as page.py writes them: digits to the base 85, the highest first. */
function fromBase85(text) {
  const bits = new Uint32Array(text.length / 5);
  for (let i = 0; i < bits.length; i++) {
    let x = 0;
    for (let j = 5 * i; j < 5 * i + 5; j++) {
      const letter = text.charCodeAt(j);
      x = 85 * x + letter - (letter > 60 ? 36 : 35); // 60, <, is left out
    }
    bits[i] = x;
  }
  return bits;
}

const LOSS_STAGES = ["loss", "pull", "backward"]; // they compare losses of one right answer
const LARGE = 50e6; // weights: of such a model, a reader waits for a pass

/** Everything that the views ask of: the record and its labels, and gradients when they are needed. */
export class Explanation {
  constructor(data) {
    this.data = data;
    this.structure = data.structure;
    this.weights = data.weights;
    this.model = createModel(data);
    this.plan = makePlan(data.structure);
    this.size = Object.values(data.weights).reduce((sum, { data }) => sum + data.length, 0);
    this.isLarge = this.size > LARGE; // then it does not run at every keystroke
    this.text = data.text; // in the sentence box
    this.textRead = data.text; // of the record
    this.target = this.isImage ? null : data.target; // the right answer; null: the whole model's own
    this.twin = null; // the same words in another order, whose answer is the right one: to see that no order is read
    this.drawing = null; // over the image of a ViT, a letter a pixel
    this.options = { causal: true, positions: true, scale: true, memory: true, ablated: {} };
    this.sampling = { temperature: 1, topK: 0, topP: 1 };
    this.screen = "walkthrough";
    this.path = this.attentionPaths()[0];
    this.alignPath = this.attentionPaths().findLast(path => path.includes("cross"));
    this.head = 0;
    this.layers = Object.fromEntries(this.structure.stacks.map(({ name }) => [name, 0])); // the ones that are drawn
    this.step = 0;
    this.chosen = null; // positions whose loss counts; null: all
    this.backward = false;
    this.letterKeys = true; // G, Q, N, H and / do what their buttons do
    this.cell = null; // { name, index, gradient, weight }
    this.windows = {}; // the first column shown of each wide array
    this.word = 0; // the token whose vector is looked up
    this.wave = 2; // the pair of columns of the positions that is drawn
    this.unit = 0; // the number of a recurrent layer's vectors that is framed
    this.beamCount = 3;
    this.numbers = false; // the tables below an equation, or a recurrent layer's pictures
    this.asHeat = null; // attention as a heat map, or as arcs; null: by the length of the text
    this.followed = ""; // the address that was followed last, or written
    this.mapOpen = null; // whether the reader opened or closed the map; null: neither
    this.quiz = null; // the question that is asked
    this.turn = 0; // of the questions of a stage
    this.play = { at: 0.5, step: null, share: 1, running: false }; // the moment of the picture: on the time line, or a step's name
    this.pictureHead = null; // whose lines the picture draws; null: the mean of all
    this.opened = null; // the block of the picture that is open
    this.detail = false; // whether the overview draws all parts of a layer, or one box
    this.speed = 1; // of Play
    this.wanted = null; // { t, id }: another right answer at a place, on the backward stage
    this.problem = ""; // why the text cannot be run
    this.notice = ""; // said until the next change
    this.link = ""; // to this view, where it could not be copied
    this.copied = false;
    this.compute();
    if (this.target) this.step = this.costliest();
  }

  get isPair() {
    return this.structure.stacks.length === 2;
  }

  get isRecurrent() {
    return Boolean(this.structure.stacks[0].recurrent);
  }

  get isImage() {
    return this.data.model_type === "vit";
  }

  /** Runs the model on the sentence. What cannot be run leaves the last record, and says so. */
  compute() {
    try {
      this.read();
      this.problem = "";
    } catch (error) {
      if (!this.record) throw error;
      this.problem = error.message;
    }
  }

  read() {
    const { model, options } = this;
    if (this.isImage) return this.readImage();
    if (this.twin && (this.options.positions || !isSameBag(this, this.twin, this.text))) this.twin = null;
    const read = model.sourceTokens(this.text);
    const source = read.map(({ id }) => id);
    let right = null;
    let labels;
    this.ranForced = this.isForced;
    if (this.structure.output.head) {
      this.record = model.run({ source, target: null }, options);
      this.compare();
      labels = this.rightLabels();
      this.askForGaps(source);
    } else {
      const limit = { maxNew: this.mostWritten(source) };
      this.answer = model.generate(source, limit, options);
      const whole = isChanged(this)
        ? model.generate(this.twin ? model.sourceIds(this.twin) : source, limit, {})
        : this.answer;
      right = this.isForced ? whole : this.answer;
      if (this.target) right = { ...model.tokenizeTarget(this.target), stopped: true };
      const reading = this.readingOf(source, right);
      labels = reading.labels;
      if (!this.isPair) {
        if (!this.prompt) this.step = source.length - 1;
        this.prompt = source.length;
      }
      this.record = model.run(reading, options);
      const isWritten = !options.causal && !this.isForced && !this.target && !this.isLarge;
      this.written = isWritten ? this.writtenLogits(reading) : null;
      this.compare(whole, this.target ? null : this.readingOf(source, whole));
    }
    this.textRead = this.text;
    this.texts = { source: read.map(({ text }) => text), target: [null, ...(right?.pieces ?? [])] }; // what tokens stand for
    this.found = { labels };
    this.step = Math.min(this.step, labels.length - 1);
    this.chosen = this.chosen?.filter(t => t < labels.length) ?? null;
    if (this.chosen?.length === 0) this.chosen = null;
    this.backwardPass = null;
    this.cell = this.cell && this.holds(this.cell) ? this.cell : null;
    this.quiz = null;
  }

  /** Whether the decoder reads the whole model's answer (teacher forcing) while parts are off: so that losses compare. */
  get isForced() {
    return Boolean(this.twin) || LOSS_STAGES.includes(this.screen);
  }

  /** What the model reads while it writes an answer, and which word is right after each. */
  readingOf(source, { ids, stopped }) {
    if (!this.isPair)
      return { source: [...source, ...ids.slice(0, -1)], target: null, labels: [...source.slice(1), ...ids] };
    const labels = stopped ? [...ids, this.data.tokenizer.end_id] : ids;
    return { source, target: [this.startId(), ...labels.slice(0, -1)], labels };
  }

  /** Without the mask, a pass over an answer sees what comes later: the logits of each word when it was written. */
  writtenLogits({ source, target, labels }) {
    const first = this.isPair ? 0 : this.prompt - 1;
    return labels.map((_, t) => {
      if (t < first) return null;
      const read = this.isPair
        ? { source, target: target.slice(0, t + 1) }
        : { source: source.slice(0, t + 1), target };
      const { logits } = this.model.run(read, this.options).arrays;
      return rowOf(logits, logits.shape[0] - 1);
    });
  }

  logitsAt(t) {
    return this.written?.[t] ?? rowOf(this.record.arrays.logits, t);
  }

  /** The whole model and the changed one on the same right answer, whose losses compare: that of the whole one. */
  get rivals() {
    const { before, record } = this;
    const { reading } = before;
    if (!reading || String(reading.labels) === String(this.found.labels))
      return { was: before.record, is: record, labels: this.labels() };
    before.rivals ??= {
      was: this.model.run(reading, {}),
      is: this.model.run(reading, this.options),
      labels: reading.labels,
    };
    return before.rivals;
  }

  /** The loss is that of the masked words, and the first of them is looked at; without any, it is that of all. */
  askForGaps(source) {
    const marks = (this.data.input.marks ?? []).map(mark => this.data.tokenizer.tokens.indexOf(mark));
    const isGap = t => this.structure.output.head === "masked_lm" && marks.includes(source[t]);
    const gaps = [...source.keys()].filter(isGap);
    if (String(gaps) === String(this.gaps ?? [])) return;
    this.gaps = gaps.length ? gaps : null;
    this.chosen = this.gaps;
    if (gaps.length) this.step = gaps[0];
  }

  readImage() {
    this.pixels = pixelsOf(this, this.drawing);
    this.record = this.model.run({ source: this.pixels }, this.options);
    this.compare();
    this.found = { labels: this.rightLabels() };
    this.backwardPass = null;
  }

  /** Of a model without parts, `before`: the whole one on the same tokens, the `answer` that it writes, its `reading`. */
  compare(answer = null, reading = null) {
    const { source, target } = this.record;
    this.before = isChanged(this)
      ? { record: this.model.run({ source, target }, {}), answer, reading, twin: null }
      : null;
    if (!this.twin) return;
    const other = { source: this.model.sourceIds(this.twin), target };
    this.before.twin = {
      source: other.source,
      whole: this.model.run(other, {}),
      changed: this.model.run(other, this.options),
    };
  }

  /** Of a head: the right class, if it is known; otherwise the likeliest at each place. */
  rightLabels() {
    const right = this.rightClass();
    return right < 0 ? this.ownLabels() : [right];
  }

  /** The class of the example, or that the reader gave; -1 if there is none. */
  rightClass() {
    const { head, labels } = this.structure.output;
    const right = this.isImage ? (this.drawing ? null : this.data.target) : this.target;
    return labels && head !== "token_classification" ? labels.indexOf(right) : -1;
  }

  /** The model's own answers, which count as right if none is given: of the whole model, so that losses compare. */
  ownLabels() {
    return bestLabelsOf((this.before ?? this).record);
  }

  /**
   * How many tokens are written. A translation ends by itself (null), but of a large model a reader does not wait for
   * a long one. A language model writes so many that its positions last; the last one is not read.
   */
  mostWritten(source) {
    if (this.isPair) return this.isLarge ? 40 : null;
    const most = this.model.family.maxLength(this.data.config) ?? Infinity;
    return Math.max(1, Math.min(8, most - source.length + 1));
  }

  startId() {
    return this.data.start;
  }

  labels() {
    const { labels } = this.found;
    return this.wanted ? labels.with(this.wanted.t, this.wanted.id) : labels;
  }

  /** Another right answer at a place: gradients follow. */
  want(wanted) {
    this.wanted = wanted;
    this.backwardPass = null;
  }

  lossPositions() {
    return this.chosen ?? this.labels().map((_, t) => t);
  }

  /** The place whose right answer is the least likely: of a wrong sentence, the word that costs most. */
  costliest() {
    const { data, shape } = this.record.arrays.probabilities;
    const likeliest = t => data[t * shape[1] + this.labels()[t]];
    return this.lossPositions().reduce((worst, t) => (likeliest(t) < likeliest(worst) ? t : worst));
  }

  gradients() {
    this.backwardPass ??= this.model.backward(this.record, { labels: this.labels(), positions: this.chosen });
    return this.backwardPass;
  }

  // ------------------------------------------------------------ labels

  idsOf(side) {
    return side === "target" ? this.record.target : this.record.source;
  }

  tokenOf(id) {
    const { tokenizer } = this.data;
    return (tokenizer?.shown ?? tokenizer?.tokens)?.[id] ?? String(id);
  }

  wordOf(id) {
    return this.structure.output.labels ? this.structure.output.labels[id] : this.tokenOf(id);
  }

  /** The tokens of a side as they are shown; found once, since each cell of a table asks for its own. */
  tokensOf(side) {
    const { record, texts } = this;
    if (this.shown?.record !== record || this.shown.texts !== texts) this.shown = { record, texts };
    this.shown[side] ??= this.tokensShown(side);
    return this.shown[side];
  }

  tokensShown(side) {
    if (this.isImage)
      return range(this.record.arrays["encoder.input"].shape[0], t => (t ? `patch ${t}` : "[CLS]"));
    return [...this.idsOf(side)].map((id, t) =>
      this.withText(shownToken(this.tokenOf(id)), id, this.texts[side][t]),
    );
  }

  /** An unknown token keeps its word: `<UNK> “zebra”`. */
  withText(shown, id, text) {
    return id === this.data.tokenizer.unk_id && text && text !== this.tokenOf(id)
      ? `${shown} “${text}”`
      : shown;
  }

  /** A right answer, as it is shown. */
  labelShown(t) {
    const id = this.labels()[t];
    const texts = this.isPair ? this.texts.target : this.structure.output.head ? [] : this.texts.source;
    const shown = shownToken(this.wordOf(id));
    return this.isImage ? shown : this.withText(shown, id, texts[t + 1]);
  }

  /** What of the text, and of the right answer, the model does not know. */
  unknownTexts() {
    if (this.isImage || this.problem) return [];
    const found = side =>
      [...(this.idsOf(side) ?? [])].flatMap((id, t) =>
        this.withText("", id, this.texts[side][t]) ? [this.texts[side][t]] : [],
      );
    return [...new Set([...found("source"), ...found("target")])];
  }

  sideOfRows(name) {
    if (/cross_attention\.(k|v)$/.test(name)) return "source";
    return name.startsWith("decoder") || (this.isPair && /^(logits|probabilities|head)/.test(name))
      ? "target"
      : "source";
  }

  rowLabel(name, t) {
    const array = this.record.arrays[name];
    const rows = array.shape.at(-2);
    if (name === "patches" || (this.isImage && name === "encoder.embedded")) return `patch ${t + 1}`; // without [CLS]
    if (rows === 1 && name.startsWith("head")) return "[CLS]";
    if (rows === 1 && /^(logits|probabilities)/.test(name)) return this.isImage ? "[CLS]" : "input";
    return this.tokensOf(this.sideOfRows(name))[t] ?? `${t}`;
  }

  isOverTokens(name) {
    return /attention\.(scores|scaled|bias|masked|weights)$/.test(name);
  }

  columnLabel(name, u) {
    if (/^(logits|probabilities)$/.test(name)) return shownToken(this.wordOf(u));
    if (!this.isOverTokens(name)) return `${u}`;
    return this.tokensOf(name.includes("cross_attention") ? "source" : this.sideOfRows(name))[u];
  }

  get eps() {
    const { config } = this.data;
    return config.layer_norm_eps ?? config.layer_norm_epsilon ?? config.rms_norm_eps ?? 1e-5;
  }

  attentionPaths() {
    const attentions = node => node.kind === "mix";
    return [...this.plan.values()].filter(attentions).map(node => node.path);
  }

  stackOf(path) {
    return this.structure.stacks.find(stack => path.startsWith(stack.name));
  }

  holds({ name, index, weight }) {
    const array = weight ? this.weights[name] : this.record.arrays[name];
    return array && index.every((i, axis) => i < array.shape[axis]);
  }

  // ------------------------------------------------------------ changes

  /** Change something and show it. A change of what is computed runs the model again. */
  set(changes) {
    const computes = ["text", "target", "options", "drawing"].some(key => key in changes);
    if ("text" in changes && !("twin" in changes)) this.twin = null;
    const relearns = "chosen" in changes || "wanted" in changes;
    if (computes || "step" in changes || "sampling" in changes) this.drawn = null;
    Object.assign(this, { notice: "", link: "", copied: false }, changes);
    if (this.screen === "cross-attention" && !this.path.includes("cross"))
      this.path = `decoder.layers.${this.layers.decoder}.cross_attention`;
    if (this.path) this.head = Math.min(this.head, this.stackOf(this.path).heads - 1);
    if (relearns) this.backwardPass = null;
    const isOther = this.before?.reading && this.ranForced !== this.isForced; // another stage reads another answer
    if (computes || isOther) {
      if (this.play.running) this.play = { at: 0.5, step: null, share: 1, running: false };
      this.wanted = null;
      this.compute();
    }
    if (changes.target) this.step = this.costliest();
    if ("backward" in changes && this.screen === "walkthrough")
      this.play = { at: this.backward ? 1 : 0.5, step: null, share: 1, running: false };
    this.show();
  }

  /** Shows the page again, after what it shows has changed. */
  show() {
    for (const listener of listeners) listener(this);
  }
}

export function bestLabelsOf({ arrays: { logits } }) {
  const [rows, width] = logits.shape;
  return range(rows, t => bestOf(logits.data.subarray(t * width, (t + 1) * width)));
}

function bestOf(row) {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return best;
}

/** The indices of the `count` largest, the largest first; of equal ones, the first first. */
export function largestIndices(row, count) {
  const best = [];
  for (let i = 0; i < row.length; i++) {
    if (best.length === count && row[i] <= row[best.at(-1)]) continue;
    const at = best.findIndex(j => row[i] > row[j]);
    best.splice(at < 0 ? best.length : at, 0, i);
    best.length = Math.min(best.length, count);
  }
  return best;
}

/** What the model makes of the sentence. */
export function answerOf(e) {
  const text = answerText(e, e.answer, e.structure.output.head ? bestLabelsOf(e.record) : []);
  return text || e.isPair ? `→ ${text || "(nothing)"}` : "";
}

/** An answer that was written, or the label of what is classified. */
export function answerText(e, answer, best) {
  if (e.isPair) return e.model.decode(answer.ids);
  const { head, labels } = e.structure.output;
  if (!head) return `…${e.model.decode(answer.ids)}`;
  return labels && best.length === 1 ? labels[best[0]] : "";
}

function isChanged({ options: { causal, positions, scale, memory, ablated } }) {
  return !causal || !positions || !scale || !memory || Object.values(ablated).some(heads => heads.length);
}

export function isSameBag(e, ...texts) {
  const [a, b] = texts.map(text => String([...text].sort()));
  if (a !== b) return false; // and so as long
  const [c, d] = texts.map(text => String(e.model.sourceIds(text).sort()));
  return c === d;
}

/** Whether the reader has switched a head off. */
export function isOff(e, path, head) {
  return (e.options.ablated[path] ?? []).includes(head);
}

/** The attentions that this stage is about. */
export function attentionPathsHere(e) {
  return e.attentionPaths().filter(path => e.screen !== "cross-attention" || path.includes("cross"));
}
