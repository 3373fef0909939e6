// Play: what of the picture is lit at a moment. From 0 to 0.5 the model runs, from 0.5 to 1 the gradient flows back.

import { range } from "./derive.js";
import { standsFor, wordsOf } from "./stageblocks.js";
import { gradientPicture, paintStage, stageView } from "./stagepaint.js";

const PLAY_SECONDS = 10;
const [READ, WRITTEN, LOSS] = [0.2, 0.46, 0.55]; // the encoder is through; the answer is; the loss is lit

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
      return ramp(at, READ + slice * (t - first + (0.9 * i) / blocks), (0.9 * slice) / blocks);
    },
    output(t, at) {
      if (first >= count || t < first) return ramp(at, readEnd, WRITTEN - readEnd);
      return ramp(at, READ + slice * (t - first + 0.9), 0.1 * slice);
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

function prefersStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

let frame = null; // of the animation that runs

export function stopMotion() {
  cancelAnimationFrame(frame);
  frame = null;
}

/** Calls `show(share)` for each frame of some seconds, with 0..1. */
function moveFor(seconds, show, end) {
  stopMotion();
  const start = performance.now();
  const next = now => {
    const share = Math.min(1, (now - start) / (1000 * seconds));
    frame = share < 1 ? requestAnimationFrame(next) : null;
    show(share);
    if (share === 1) end?.();
  };
  frame = requestAnimationFrame(next);
}

/** Run from where the time line is to its end; again: stop there. Without motion, show the next end. */
export function playOrStop(e) {
  if (!stageView) return;
  if (e.play.running) {
    stopMotion();
    e.set({ play: { ...e.play, running: false } });
    return;
  }
  const isBack = e.screen === "backward";
  const low = isBack ? 0.5 : 0;
  const from =
    e.play.at >= 0.999 || (!isBack && e.play.at === 0.5 && e.play.step === null)
      ? low
      : Math.max(low, e.play.at);
  if (prefersStill())
    return e.set({
      play: { at: e.play.at >= 0.5 && e.play.at < 1 ? 1 : 0.5, step: null, share: 1, running: false },
    });
  stageView.back ??= gradientPicture(e, stageView); // which takes longer than a frame
  e.set({ play: { at: from, step: null, share: 1, running: true } });
  moveFor(
    PLAY_SECONDS * (1 - from),
    share => showMoment(e, from + (1 - from) * share),
    () => e.set({ play: { ...e.play, running: false } }),
  );
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
