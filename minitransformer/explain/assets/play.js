// Play: what of the picture is lit at a moment. From 0 to 0.5 the model runs, from 0.5 to 1 the gradient flows back.

import { range } from "./derive.js";
import { standsFor, wordsOf } from "./stageblocks.js";
import { gradientPicture, paintStage, stageView } from "./stagepaint.js";

const [FORWARD_SECONDS, BACKWARD_SECONDS] = [15, 10];
const ARRIVES = 0.25; // of the time of a written word, until it has come to the input
export const [READ, WRITTEN, LOSS] = [0.2, 0.46, 0.55]; // the encoder is through; the answer is; the loss is lit

/** How much of a strip is lit at `at`, from 0 to 1: `forward` by its values, `backward` by its gradient. */
export function makeSchedule(e, layout) {
  const last = layout.columns.at(-1);
  const count = wordsOf(e, last.blocks[0].side).length;
  const writes = !e.structure.output.head;
  const first = e.isPair ? 0 : writes ? e.prompt - 1 : count; // the first token that is run by itself
  const isPrompt = (block, t) => block.stack !== last.stack.name || t < first;
  const readEnd = first < count ? READ : WRITTEN - 0.04;
  const slice = (WRITTEN - READ) / Math.max(1, count - first);
  const order = layout.columns.flatMap(({ blocks }) => blocks);
  const within = new Map(
    layout.columns.flatMap(({ blocks }) => blocks.map((block, i) => [block.id, [i, blocks.length]])),
  );
  const back = [...layout.columns].reverse().flatMap(({ blocks }) => [...blocks].reverse());
  const backAt = new Map(back.map((block, i) => [block.id, LOSS + ((0.99 - LOSS) * i) / back.length]));
  const step = (0.99 - LOSS) / back.length;
  return {
    order,
    back,
    forward(block, t, at) {
      const [i, blocks] = within.get(block.id);
      if (isPrompt(block, t)) {
        const part = readEnd / blocks;
        return ramp(at, part * (i + (0.45 * t) / block.count), 0.55 * part);
      }
      const part = (0.9 - ARRIVES) / blocks;
      return ramp(at, READ + slice * (t - first + ARRIVES + part * i), part * slice);
    },
    output(t, at) {
      if (first >= count || t < first) return ramp(at, readEnd, WRITTEN - readEnd);
      return ramp(at, READ + slice * (t - first + 0.9), 0.1 * slice);
    },
    /** How far a word has come in: one that is read at the start, or one that was written. */
    enters: (t, at, isRead) =>
      isRead ? ramp(at, (0.06 * t) / count, 0.02) : ramp(at, READ + slice * (t - first + ARRIVES), 0.001),
    /** The word that goes from the answers to the inputs: of place `t`, and how far it is; null if none does. */
    travelling(at) {
      const i = Math.floor((at - READ) / slice);
      const share = (at - READ - i * slice) / (ARRIVES * slice);
      return i > 0 && first + i < count && share < 1 ? { t: first + i - 1, share } : null;
    },
    loss: at => ramp(at, 0.5, LOSS - 0.5),
    written: first < count ? range(count - first, i => READ + slice * (i + 0.99)) : [WRITTEN - 0.001], // moments
    backward: (block, at) => ramp(at, backAt.get(block.id), step),
  };
}

function ramp(at, start, length) {
  return Math.max(0, Math.min(1, (at - start) / length));
}

/** The steps of the slow walk: each block forward, the answer, the loss, and each block backward. Each has a name. */
export function walkSteps({ order, back }, output) {
  const steps = [
    ...order.map(block => ({ block, isBack: false })),
    { block: output, isBack: false },
    { block: output, isBack: true },
    ...back.filter(block => block.array).map(block => ({ block, isBack: true })),
  ];
  return steps.map(step => ({ ...step, name: `${step.isBack ? "back" : "on"}-${step.block.id}` }));
}

/** Which step of the slow walk is shown; null if none is, or if it is none of this layout. */
export function stepIndex({ steps }, { step }) {
  if (step === null) return null;
  const [, way, id] = /^(\w+)-(.*)$/.exec(step) ?? [];
  const i = steps.findIndex(({ block, isBack }) => isBack === (way === "back") && standsFor(block, id));
  return i < 0 ? null : i;
}

/** What is lit: on the time line, or up to a step of the slow walk, of which `share` is done. */
export function lightOf(view, play) {
  const { schedule, steps } = view;
  const at = stepIndex(view, play);
  if (at === null) {
    return {
      forward: (block, t) => schedule.forward(block, t, play.at),
      backward: block => schedule.backward(block, play.at),
      output: t => schedule.output(t, play.at),
      enters: (t, isRead) => schedule.enters(t, play.at, isRead),
      loss: schedule.loss(play.at),
      current: null,
    };
  }
  const done = (id, isBack) => {
    const i = steps.findIndex(step => step.block.id === id && step.isBack === isBack);
    return i < 0 ? Number(at >= schedule.order.length) : i < at ? 1 : i === at ? play.share : 0;
  };
  return {
    forward: block => done(block.id, false),
    backward: block => (block.array ? done(block.id, true) : 0),
    output: () => done("probabilities", false),
    enters: () => 1,
    loss: done("probabilities", true),
    current: steps[at].block.id,
  };
}

/** Where a step of the walk stands on the time line. */
function timeOfStep(view, i) {
  const forward = view.schedule.order.length + 1;
  return i < forward
    ? (0.5 * (i + 1)) / forward
    : 0.5 + (0.5 * (i + 1 - forward)) / (view.steps.length - forward);
}

export function prefersStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

let frame = null; // of the animation that runs

export function stopMotion() {
  cancelAnimationFrame(frame);
  frame = null;
}

/** Calls `show(share)` for each frame of some seconds, with 0..1, unless it says false. */
export function moveFor(seconds, show, end) {
  stopMotion();
  const start = performance.now();
  const next = now => {
    const share = Math.min(1, (now - start) / (1000 * seconds));
    frame = share < 1 ? requestAnimationFrame(next) : null;
    if (show(share) === false) return stopMotion();
    if (share === 1) end?.();
  };
  frame = requestAnimationFrame(next);
}

/** Run forward, from where the time line is to the answer, or the gradient back; again: stop there. */
export function playOrStop(e, isBack = e.screen === "backward") {
  if (!stageView) return;
  if (!e.play.running) return play(e, isBack);
  stopMotion();
  e.set({ play: { ...e.play, running: false } });
}

function play(e, isBack) {
  const [low, high] = isBack ? [0.5, 1] : [0, 0.5];
  const { at } = e.play;
  const from = at < low || at >= high - 0.001 ? low : at;
  const isStill = prefersStill();
  if (isBack) stageView.back ??= gradientPicture(e, stageView); // which takes longer than a frame
  e.set({ play: { at: isStill ? high : from, step: null, share: 1, running: !isStill } });
  if (isStill) return;
  const seconds = (isBack ? BACKWARD_SECONDS : FORWARD_SECONDS) * ((high - from) / (high - low));
  moveFor(
    seconds / e.speed,
    share => (e.play.running ? showMoment(e, from + (high - from) * share) : stopMotion()),
    () => e.set({ play: { ...e.play, running: false } }),
  );
}

/** Once, when the page opens, or when a text has another answer: it is not there yet. */
export function playFromStart(e) {
  if (prefersStill() || e.screen !== "walkthrough") return;
  e.play = { at: 0, step: null, share: 1, running: false };
  play(e, false);
}

/** Three times as fast, or as before; what runs goes on. */
export function changeSpeed(e) {
  const { running, at } = e.play;
  e.set({ speed: e.speed === 1 ? 3 : 1 });
  if (running) play(e, at >= 0.5);
}

/** To the moment at which the next word is written; after the last, to that of the first. */
export function playToWord(e) {
  stopMotion();
  const { written } = stageView.schedule;
  const at = written.find(moment => e.play.step === null && moment > e.play.at + 0.001) ?? written[0];
  e.set({ play: { at, step: null, share: 1, running: false } });
}

/** A moment of the time line, without rendering the page. */
export function showMoment(e, at) {
  e.play = { ...e.play, at, step: null };
  paintStage(e);
  const slider = document.getElementById("timeline");
  if (!slider) return;
  slider.value = Math.round(1000 * at);
  slider.setAttribute("aria-valuetext", momentText(at));
}

export function momentText(at) {
  return at <= 0.5 ? `forward, ${Math.round(200 * at)} %` : `backward, ${Math.round(200 * (at - 0.5))} %`;
}

/** To a step of the slow walk. */
export function walkTo(e, step) {
  stopMotion();
  const play = {
    at: timeOfStep(stageView, step),
    step: stageView.steps[step].name,
    share: 1,
    running: false,
  };
  if (prefersStill()) return e.set({ play });
  e.set({ play: { ...play, share: 0 } });
  moveFor(0.7, share => {
    e.play = { ...e.play, share };
    paintStage(e);
  });
}
