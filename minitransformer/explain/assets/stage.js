// The model as the picture: one canvas of strips and lines, and above it labels, words, answers and what is opened.

import { filled, h, s } from "../../../minigrad/graph/assets/dom.js";
import { range } from "./derive.js";
import { hint, shortened, shownToken, unitOf } from "./elements.js";
import { drawingBoard } from "./image.js";
import { journeyIndex, journeyStep, targetPlace } from "./journey.js";
import { placeKey, samePlace } from "./matrix.js";
import { brief, elementOf, percent } from "./numbers.js";
import { continueText, stepRow, temperatureSlider } from "./output.js";
import { headButtons, middleOf, tileX } from "./pictures.js";
import {
  changeSpeed,
  momentText,
  playFromStart,
  playOrStop,
  showMoment,
  stepIndex,
  stopMotion,
  walkTo,
} from "./play.js";
import { standsFor, wordsOf } from "./stageblocks.js";
import { WIDE } from "./stagelayout.js";
import {
  DIM,
  SPAN,
  cellAt,
  emptyCanvas,
  isInChain,
  paintStage,
  placeOnStage,
  stageView,
  viewOf,
} from "./stagepaint.js";
import { blockCard, captionOf, sentenceOf } from "./stagewords.js";
import { answerText, bestLabelsOf, isOff } from "./state.js";
import { lengthBar, vanishingText } from "./vanishing.js";
import { whatChanged } from "./whatif.js";
import { answerCard, askedAnswer, distributionAt, likeliest } from "./why.js";
import { opening } from "./words.js";

const CONTROLS = 52; // height of the row of buttons
const DOCKED = 1000; // from this width on, a card is at the side
const ROOMY = 150e3; // square pixels: of a larger panel, the text is larger

/** The overview: the model as it ran, and Play. */
export function pictureScreen(e) {
  return { picture: pictureOf(e, false) };
}

export function pictureOf(e, isBack) {
  const header = document.querySelector("header").offsetHeight;
  const width = Math.max(320, document.documentElement.clientWidth); // a notebook's frame has no width at first
  const controls = width < 700 ? 104 : CONTROLS;
  const below = width < 700 ? (isBack ? 150 : 82) : 0; // for the first lines of what stands below the picture
  const hasMenu = document.querySelector(".switches[open]"); // What if
  const isDocked = Boolean(e.opened || hasMenu) && width >= DOCKED; // then the picture leaves room for it
  const dock = askedAnswer(e) || !e.opened ? 440 : Math.max(440, Math.min(640, 0.42 * width));
  const room = isDocked ? width - dock : width;
  const view = viewOf(e, room, Math.max(380, window.innerHeight - header - controls - below - 2));
  const { layout } = view;
  const box = { width: layout.width, height: layout.height };
  const canvas = filled(
    emptyCanvas("cells", layout),
    { id: "cells", role: "img", "aria-label": pictureLabel(e, layout) },
    [],
  );
  const card = e.opened ? (answerCard(e) ?? blockCard(e, view, isDocked ? dock : width - 24)) : null;
  if (e.opened && !card) return pictureOf(Object.assign(e, { opened: null }), isBack); // there is no such block
  if (card && isDocked) place(card, { left: room, top: 6, width: dock - 10, maxHeight: layout.height - 12 });
  card?.classList.toggle("docked", isDocked);
  const stage = h(
    "div",
    { class: "stage" },
    canvas,
    drawing(e, view),
    foldChoices(e, view),
    isDocked ? card : null,
    layout.panel ? panel(e, view, isBack) : null,
  );
  const selected = e.cell && placeOnStage(e, view, e.cell);
  document.body.classList.toggle("aside", isDocked || selected?.x > width / 2); // the panel is at the other side
  place(canvas, { width: box.width, height: box.height });
  place(stage, { height: layout.height });
  return [
    controlRow(e, view, isBack),
    stage,
    isDocked ? null : card,
    layout.panel ? null : panel(e, view, isBack),
  ];
}

/** Sizes and positions in pixels. */
function place(element, sizes) {
  for (const [name, value] of Object.entries(sizes)) element.style[name] = `${value}px`;
  return element;
}

function pictureLabel(e, { columns }) {
  const stacks = columns.map(({ stack, blocks }) => `${stack.name}: ${blocks.length} blocks`).join("; ");
  return `The model as it ran. ${stacks}. Each strip has a cell for each number of a ${unitOf(e)}'s vector.`;
}

// ------------------------------------------------------------ the row of controls

function controlRow(e, view, isBack) {
  const steps = isBack ? view.steps.findIndex(step => step.isBack) : 0;
  const at = stepIndex(view, e.play);
  const most = view.steps.length - 1;
  const hasRoom = document.documentElement.clientWidth >= WIDE;
  const shown = by => (isBack ? journeyIndex(e, view) : (at ?? (by > 0 ? -1 : most + 1))); // the step one comes from
  const go_ = by => walkTo(e, Math.max(steps, Math.min(most, shown(by) + by)));
  const timeline = h("input", {
    id: "timeline",
    type: "range",
    min: isBack ? 500 : 0,
    max: 1000,
    step: 1,
    value: Math.round(1000 * e.play.at),
    "data-key": "timeline",
    "aria-label": "Moment: forward, then backward",
    "aria-valuetext": momentText(e.play.at),
    oninput: event => {
      stopMotion();
      e.play.running = false;
      showMoment(e, Number(event.target.value) / 1000);
    },
    onchange: () => e.set({ play: { ...e.play, running: false } }),
  });
  const slider = h(
    "span",
    { class: "timeline" },
    timeline,
    isBack
      ? null
      : h("span", { class: "ends", "aria-hidden": "true" }, h("span", "forward →"), h("span", "← gradients")),
  );
  return h(
    "div",
    { class: "controls" },
    h("h2", { id: e.screen, class: "picture-title" }, isBack ? "The backward pass" : "Overview"),
    h(
      "button",
      { type: "button", class: "primary play", "data-key": "play", onclick: () => playOrStop(e) },
      e.play.running ? "❚❚ Stop" : "▶ Play",
    ),
    isBack
      ? null
      : h(
          "button",
          {
            type: "button",
            "data-key": "play-back",
            disabled: e.play.running,
            title: "The gradient of the loss, from the answer back to the input",
            onclick: () => playOrStop(e, true),
          },
          "◀ ",
          h("span", "Backward"),
        ),
    h(
      "button",
      {
        type: "button",
        "data-key": "speed",
        "aria-label": `Speed: ${e.speed} times`,
        onclick: () => changeSpeed(e),
      },
      `${e.speed}×`,
    ),
    slider,
    h(
      "span",
      { class: "together", role: "group", "aria-label": "Slow walk" },
      h(
        "button",
        {
          type: "button",
          "data-key": "walk-back",
          "aria-label": "Previous step of the slow walk",
          onclick: () => go_(-1),
          disabled: at !== null && at <= steps,
        },
        "‹",
      ),
      h(
        "button",
        { type: "button", "data-key": "walk-on", onclick: () => go_(1), disabled: at === most },
        isBack ? "Step ›" : "Slow walk ›",
      ),
    ),
    isBack || !hasRoom
      ? null
      : h(
          "button",
          {
            type: "button",
            "aria-pressed": e.detail ? "true" : "false",
            "data-key": "detail",
            onclick: () => e.set({ detail: !e.detail, opened: null }),
          },
          "All parts",
        ),
    turnLinks(e),
  );
}

function turnLinks(e) {
  const at = e.screens.findIndex(screen => screen.address === e.screen);
  const [before, after] = [e.screens[at - 1], e.screens[at + 1]];
  return h(
    "nav",
    { class: "turns", "aria-label": "Next and previous stage" },
    before
      ? h(
          "a",
          { href: `#${before.address}`, rel: "prev", "aria-label": `Previous stage: ${before.title}` },
          "←",
        )
      : null,
    after
      ? h(
          "a",
          { href: `#${after.address}`, rel: "next", "aria-label": `Next stage: ${after.title}` },
          h("span", after.title),
          " →",
        )
      : null,
  );
}

/** Shows a card, or closes it; below the picture, it is scrolled to. */
function open(e, changes) {
  e.set(changes);
  document.querySelector(".card:not(.docked)")?.scrollIntoView({ block: "nearest" });
}

// ------------------------------------------------------------ labels, words and answers

function drawing(e, view) {
  const { layout } = view;
  return s(
    "svg",
    {
      class: "over",
      width: layout.width,
      height: layout.height,
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      role: "group",
      "aria-label": "The model as it ran",
      onclick: event => clickStage(e, event),
      onpointermove: event => pointStage(e, event),
      onpointerleave: () => pointAt(e, null, null),
    },
    layout.columns.map(column => residuals(column, layout)),
    layout.columns.map(column => wordsBelow(e, view, column)),
    layout.blocks.map(block => tagOf(e, view, block)),
    tagOf(e, view, layout.output),
    outputs(e, view),
  );
}

/** Residual connections, at the side of the labels. */
function residuals({ blocks }, { isCompact }) {
  if (isCompact) return null;
  return blocks.map((block, i) => {
    if (!block.around) return null;
    const from = blocks[i - 2]; // the block below the sub-layer
    const y = from.tileY - 2;
    const at = block.tileY + block.tileHeight / 2;
    const edge = middleOf(block, block.labelsRight ? block.count - 1 : 0);
    const out = block.labelsRight ? block.x + block.width + 12 : block.x - 12;
    const end =
      tileX(block, block.labelsRight ? block.count - 1 : block.skips) +
      (block.labelsRight ? block.tileWidth + 3 : -3);
    return s("path", { class: "around", d: `M${edge} ${y}H${out}V${at}H${end}`, "data-around": block.id });
  });
}

function wordsBelow(e, view, column) {
  const { blocks, stack } = column;
  const [base] = blocks;
  if (base.array)
    return s(
      "text",
      {
        class: "token",
        x: middleOf(base, 0),
        y: base.tileY + base.tileHeight / 2 + 5,
        "text-anchor": "middle",
      },
      "[CLS]", // beside the patches
    );
  const words = wordsOf(e, base.side);
  const { isTurned, step, every } = view.layout.room;
  const room = isTurned ? view.layout.room.words - 8 : every * step - 4;
  return words.map((word, t) => {
    if (t % every) return null;
    const text = fitted(word, room, "14.5px");
    const [x, y] = [middleOf(base, t), base.y + (isTurned ? 6 : 17)];
    return s(
      "text",
      {
        class: "token",
        x,
        y,
        "text-anchor": isTurned ? "end" : "middle",
        transform: isTurned ? `rotate(-90 ${x} ${y})` : null,
        dy: isTurned ? "0.35em" : null,
        "data-word": `${stack.name}:${t}`,
      },
      text,
      s("title", word),
    );
  });
}

/** A block's name, which opens it. */
function tagOf(e, view, block) {
  const { x, y, width, height } = block.tag;
  const isOpen = standsFor(block, e.opened);
  const size = Math.max(18, Math.min(26, height));
  const top = y + height / 2 - size / 2;
  const text = fitted(block.text, width - 6, "13px");
  return s(
    "a",
    {
      class: ["tag", isOpen ? "open" : "", e.cell?.name === block.array && block.array ? "here" : ""]
        .filter(Boolean)
        .join(" "),
      href: `#${block.to}`,
      role: "button",
      "aria-expanded": isOpen ? "true" : "false",
      "aria-label": block.label,
      "data-key": `block:${block.id}`,
      "data-block": block.id,
      onclick: event => {
        if (event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        event.stopPropagation();
        open(e, { opened: isOpen ? null : block.id, cell: null });
      },
    },
    s("rect", { x, y: top, width, height: size, rx: 5, class: block.kind }),
    lengthBar(e, view, block, { x: x + 1, y: top + size - 5, width: width - 2 }),
    s("text", { x: x + width / 2, y: top + size / 2 + 4, "text-anchor": "middle" }, text),
  );
}

/** The likeliest words of each token, or of one where columns are narrow. */
function outputs(e, view) {
  const { output } = view.layout;
  if (!output.isNarrow)
    return range(output.count, t =>
      candidates(e, output, t, output.x + t * output.step + 5, output.step - 14, output.height < 70 ? 2 : 3),
    );
  const t = e.screen === "backward" ? targetPlace(e) : stepRow(e);
  const width = Math.min(Math.max(output.room, 150), 260);
  const most = Math.min(4, Math.max(2, Math.floor((output.height - 4) / 17))); // a line has at least 17 px
  return candidates(e, output, t, output.x + output.room - Math.max(output.room, width), width, most);
}

function candidates(e, output, t, x, width, most) {
  const before = e.before?.record.arrays.probabilities;
  const right = e.labels()[t];
  const best = likeliest(e, t, most);
  const isBack = e.screen === "backward" && e.lossPositions().includes(t);
  if (isBack && !best.some(({ id }) => id === right))
    best[most - 1] = { id: right, p: distributionAt(e, t)[right] };
  const isQuiet = isPromptRow(e, t);
  const line = Math.min(23, (output.height - 4) / most);
  return s(
    "g",
    { class: isQuiet ? "says quiet" : "says", "data-says": t },
    best.map(({ id, p }, i) => {
      const y = output.y + output.height - (most - i) * line;
      const word = shownToken(e.wordOf(id));
      const was = before ? elementOf(before, [t, id]) : 0;
      const size = i ? "13px" : "700 14px";
      const percentage = percent(p);
      const room = width - widthOf(percentage, "13px") - 4;
      const share = width < 50 || widthOf(word, size) > room ? "" : percentage; // a word comes before its number
      const shown = fitted(word, share ? room : width, size);
      return answerButton(e, output, { t, i, id, isBack, label: `“${word}”: ${percentage}` }, [
        s("rect", { class: "hit", x: x - 2, y: y - 2, width: width + 4, height: line, rx: 4 }),
        width * p < 1
          ? null
          : s("rect", { class: "chance", x, y: y + line - 4, width: width * p, height: 3 }),
        was > 0.005
          ? s(
              "rect",
              { class: "was", x, y: y + line - 5, width: Math.max(0.5, width * was), height: 5 },
              s("title", `before: ${percent(was)}`),
            )
          : null,
        s(
          "text",
          {
            class: ["word", i ? "" : "best", isBack && id === right ? "right" : ""].filter(Boolean).join(" "),
            x,
            y: y + line - 7,
          },
          shown,
          s("title", `${word}: ${percentage}`),
        ),
        share
          ? s(
              "text",
              {
                class: id === right ? "share right" : "share",
                x: x + width,
                y: y + line - 7,
                "text-anchor": "end",
              },
              share,
            )
          : null,
      ]);
    }),
  );
}

/** A candidate opens its card, or on the backward stage counts as right; with the focus, its lines are alone. */
function answerButton(e, output, { t, i, id, isBack, label }, content) {
  const name = `why-${t + 1}-${i + 1}`;
  const isOpen = e.opened === name;
  const changes = isBack ? { wanted: { t, id } } : { opened: isOpen ? null : name, cell: null };
  return s(
    "a",
    {
      class: isOpen ? "candidate open" : "candidate",
      href: "#probabilities",
      role: "button",
      "aria-expanded": isBack ? null : isOpen ? "true" : "false",
      "aria-label": `${isBack ? "Counts as right:" : i ? "Why not" : "Why"} ${label}`,
      "data-key": name,
      "data-word-id": id,
      onfocus: () => pointAt(e, { column: output.column, t }, null),
      onblur: () => pointAt(e, null, null),
      onclick: event => {
        if (event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        event.stopPropagation();
        open(e, { step: t, ...changes });
      },
    },
    content,
  );
}

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map(); // of the texts that were measured

/** The width of a text of a size, such as "700 14px", in the page's font. */
function widthOf(text, size) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    ruler.font = `${size} ${getComputedStyle(document.documentElement).fontFamily}`;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

/** The text, cut where it does not fit. */
function fitted(text, room, size) {
  let shown = text;
  for (let length = text.length - 1; length > 0 && widthOf(shown, size) > room; length--)
    shown = `${text.slice(0, length)}…`;
  return shown;
}

/** Whether what is predicted here is not used: within the prompt of a language model, or beside the gaps. */
export function isPromptRow(e, t) {
  if (e.isPair) return false;
  if (e.structure.output.head) return Boolean(e.gaps) && !e.gaps.includes(t);
  return t < e.prompt - 1;
}

// ------------------------------------------------------------ what is lit

/** Labels, answers and losses as far as the moment goes. */
export function showLight(e, view, light, chain) {
  const svg = document.querySelector(".stage .over");
  for (const tag of svg.querySelectorAll(".tag")) {
    const block = view.layout.blocks.find(each => each.id === tag.dataset.block);
    const { current } = light;
    const isCurrent = current === tag.dataset.block;
    tag.classList.toggle(
      "lit",
      isCurrent || (block ? isMoving(block, light) : light.loss > 0 && light.loss < 1),
    );
    tag.classList.toggle("flows", block ? light.backward(block) > 0 : light.loss > 0);
    const bar = tag.querySelector(".length");
    if (bar) bar.style.opacity = light.backward(block);
  }
  for (const says of svg.querySelectorAll("[data-says]")) {
    const isAsked = !chain || Number(says.dataset.says) === chain.t;
    says.style.opacity = light.output(Number(says.dataset.says)) * (isAsked ? 1 : DIM);
    says.classList.toggle("flows", light.loss > 0);
  }
  const last = view.layout.columns.at(-1);
  for (const word of svg.querySelectorAll(`[data-word^="${last.stack.name}:"]`)) {
    const t = Number(word.dataset.word.split(":")[1]);
    const isGiven = t === 0 || isPromptRow(e, t - 1) || e.structure.output.head;
    const first = last.blocks.find(block => block.array); // in the slow walk, all words go through it at once
    word.style.opacity =
      isGiven || light.current === null ? light.enters(t, isGiven) : light.forward(first, t);
  }
  for (const word of svg.querySelectorAll(`[data-word]:not([data-word^="${last.stack.name}:"])`))
    word.style.opacity = light.enters(Number(word.dataset.word.split(":")[1]), true);
  for (const said of document.querySelectorAll(".saying .said, .answers .answer"))
    said.style.opacity = light.output(last.blocks[0].count - 1);
  if (chain)
    for (const word of svg.querySelectorAll("[data-word]")) {
      const [name, t] = word.dataset.word.split(":");
      const at = view.layout.columns.findIndex(({ stack }) => stack.name === name);
      if (!isInChain(view, chain, at, Number(t))) word.style.opacity *= DIM;
    }
  const caption = document.querySelector(".panel .thought");
  if (!caption || e.screen !== "walkthrough" || light.current !== null) return;
  const words = h("p", captionOf(e, view, light));
  if (words.textContent !== caption.textContent) caption.replaceChildren(...words.childNodes);
}

function isMoving(block, light) {
  const back = light.backward(block);
  if (back > 0) return back < 1;
  for (let t = 0; t < block.count; t++) {
    const share = light.forward(block, t);
    if (share > 0 && share < 1) return true;
  }
  return false;
}

// ------------------------------------------------------------ pointing and selecting

function pointOf(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function clickStage(e, event) {
  const [side, t] = event.target.closest("[data-word]")?.dataset.word.split(":") ?? [];
  const found = cellAt(e, stageView, ...pointOf(event));
  if (writesAfter(e, side, Number(t)))
    open(e, { step: Number(t), opened: `why-${Number(t) + 1}-1`, cell: null });
  else if (found) e.set({ cell: samePlace(e.cell, found.cell) ? null : found.cell, opened: null });
  else if (e.opened) e.set({ opened: null });
}

/** Whether the model answers after reading this word: those of a decoder, but for a prompt's. */
export function writesAfter(e, side, t) {
  return (
    side === stageView.layout.columns.at(-1).stack.name &&
    !e.structure.output.head &&
    e.screen === "walkthrough" &&
    !isPromptRow(e, t)
  );
}

function pointStage(e, event) {
  const { columns, output } = stageView.layout;
  const [side, t] = event.target.closest("[data-word]")?.dataset.word.split(":") ?? [];
  const says = event.target.closest("[data-says]")?.dataset.says; // it was written by the column below it
  const word = side
    ? { column: columns.findIndex(({ stack }) => stack.name === side), t: Number(t) }
    : says
      ? { column: output.column, t: Number(says) }
      : null;
  pointAt(e, word, word ? null : cellAt(e, stageView, ...pointOf(event)));
}

function pointAt(e, word, hover) {
  const key = ({ word: w, hover: c }) => `${w?.column}:${w?.t}:${c && placeKey(c.cell)}`;
  if (key({ word, hover }) === key(stageView)) return;
  Object.assign(stageView, { word, hover });
  document.querySelector(".stage .over").style.cursor = hover ? "pointer" : "";
  paintStage(e);
}

/** Of a folded stack: which of its equal layers is drawn. */
function foldChoices(e, { layout }) {
  return layout.columns.map(({ stack, blocks }, i) => {
    if (layout.fold[i] === null) return null;
    const inLayer = blocks.filter(block => block.layer !== undefined);
    const attention = inLayer.find(block => block.kind === "attention"); // below its label there is room
    const y = attention ? attention.tileY + attention.tileHeight + 4 : inLayer.at(-1).y - 22;
    const label = h(
      "label",
      { class: "fold" },
      h(
        "select",
        {
          "data-key": `layer:${stack.name}`,
          "aria-label": `Layer of the ${stack.name}`,
          onchange: event => e.set({ layers: { ...e.layers, [stack.name]: Number(event.target.value) } }),
        },
        range(stack.layers, j => h("option", { value: j, selected: j === layout.fold[i] }, `layer ${j + 1}`)),
      ),
      ` × ${stack.layers}`,
    );
    return place(label, { left: inLayer[0].tag.x, top: Math.max(0, y) });
  });
}

// ------------------------------------------------------------ the panel

function panel(e, view, isBack) {
  const box = view.layout.panel;
  const isRoomy = !e.before && box && !isBack && box.width * box.height > ROOMY; // of a changed model there is more to say
  const element = h(
    "section",
    {
      class: box ? (isRoomy ? "panel roomy" : "panel") : `panel below${e.play.running ? " plays" : ""}`,
      "aria-label": isBack ? "The step" : "What the model does",
    },
    isBack ? journeyStep(e, view) : overviewText(e, view),
  );
  return box ? place(element, { left: box.x, top: box.y, width: box.width, height: box.height }) : element;
}

function overviewText(e, view) {
  const step = view.steps[stepIndex(view, e.play)];
  const isOpening = !step && !e.detail && !e.before;
  return [
    saying(e),
    h(
      "p",
      { class: "thought", role: "status" },
      step
        ? [h("b", step.block.label, step.isBack ? ", backward. " : ". "), sentenceOf(e, step)]
        : e.before
          ? whatChanged(e)
          : opening(e),
    ),
    e.play.at >= 0.99 && e.play.step === null ? vanishingText(e, view) : null,
    isOpening ? continuing(e) : null,
    h("div", { class: "rows" }, legend(e, view), isOpening ? examples(e) : null),
  ];
}

/** Other texts to try; the last has its words in the opposite order, which the model was not trained on. */
function examples(e) {
  const { examples: texts = [] } = e.data;
  const turned = (texts[0] ?? "").split(" ").toReversed().join(" ");
  const found = [...texts, turned].filter(
    (text, i, all) => text && text !== e.text && all.indexOf(text) === i,
  );
  if (!texts.length || !found.length) return null;
  const chip = text =>
    h(
      "button",
      {
        type: "button",
        class: "chip",
        title: text === turned ? `The opposite order is harder: ${text}` : text,
        "data-key": `example:${text}`,
        onclick: () => {
          e.set({ text, target: null });
          playFromStart(e);
        },
      },
      outline(text),
    );
  return h("p", { class: "examples" }, "Try ", found.map(chip));
}

/** The first and the last words of a long text: several may begin alike. */
function outline(text) {
  const words = text.split(" ");
  return words.length > 7 ? [...words.slice(0, 3), "…", ...words.slice(-3)].join(" ") : shortened(text, 40);
}

/** Of a language model: the next words, as likely as the slider makes them. */
function continuing(e) {
  if (e.isPair || e.structure.output.head) return null;
  const go_ = () => {
    continueText(e);
    playFromStart(e);
  };
  return h(
    "div",
    { class: "continue" },
    h("button", { type: "button", "data-key": "continue", onclick: go_ }, "Continue"),
    temperatureSlider(e),
  );
}

/** What this is: how this model came from what it read to what it says. */
function saying(e) {
  const isWritten = !e.structure.output.head;
  const text = isWritten && !e.isPair ? e.model.decode([...e.record.source].slice(0, e.prompt)) : e.textRead;
  const said = saidOf(e);
  const [verb, joint] = !said
    ? ["reads", ""]
    : e.isPair
      ? ["turned", " into "]
      : isWritten
        ? ["went on from", " with "]
        : e.gaps
          ? ["filled the gap of", " with "]
          : ["sorted", " as "];
  const right = e.rightClass();
  return [
    h(
      "h3",
      { class: "saying", dir: "auto" },
      `How a model of ${countOfWeights(e)} weights ${verb} `,
      h("span", { class: "read" }, e.isImage ? "an image" : `“${shortened(text, 90)}”`),
      joint,
      said ? h("span", { class: "blank" }, h("span", { class: "said" }, `“${shortened(said, 60)}”`)) : null,
      ", in your browser",
    ),
    right < 0 ? null : hint(`The right class: “${e.wordOf(right)}”.`),
    e.isImage ? drawingBoard(e, 190) : null,
  ];
}

function saidOf(e) {
  const best = e.structure.output.head ? bestLabelsOf(e.record) : [];
  if (e.gaps) return e.gaps.map(t => shownToken(e.tokenOf(best[t])).trim()).join(", ");
  return answerText(e, e.answer, best);
}

/** How many weights: two digits of a million, three of less. */
function countOfWeights({ size }) {
  if (size >= 1e6) return `${(size / 1e6).toLocaleString("en", { maximumSignificantDigits: 2 })} million`;
  return Number(size.toPrecision(3)).toLocaleString("en");
}

/** What the colours say. */
export function legend(e, view, isBack = false) {
  const scale = view.back
    ? `±${brief(view.brightest * 10 ** -SPAN)} to ±${brief(view.brightest)}`
    : `from 10⁻${"⁰¹²³⁴⁵⁶"[SPAN]} of the largest`;
  const key = (kind, label) =>
    h("span", { class: "key" }, h("span", { class: `ramp ${kind}` }), h("span", label));
  const outline = e.before
    ? h("span", { class: "key" }, h("span", { class: "outline" }), h("span", "before: the whole model"))
    : null;
  return h(
    "p",
    { class: "scales" },
    outline,
    isBack ? null : key("values", "values, − to +"),
    isBack || e.play.at > 0.5 ? key("gradients", `gradients, by powers of ten: ${scale}`) : null,
    headKeys(e),
  );
}

/** The colours of heads: a click leaves the lines of one, another click shows all again. */
function headKeys(e) {
  const heads = Math.max(...e.structure.stacks.map(stack => stack.heads ?? 0));
  if (heads < 2) return null;
  const isOffAt = i => e.attentionPaths().every(path => i >= e.stackOf(path).heads || isOff(e, path, i));
  const choose = i => e.set({ pictureHead: i === e.pictureHead ? null : i });
  const title =
    "A line has the colour of the head that looks most; from the ninth head on, colours repeat. " +
    "Select a head to see its lines alone.";
  return h(
    "span",
    { class: "key", title },
    "lines by head",
    headButtons(heads, e.pictureHead, isOffAt, choose, "lines"),
  );
}
