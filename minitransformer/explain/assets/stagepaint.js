// The canvas of the picture: strips of cells, lines of attention, and what moves.

import { css, headColour, mixed, pageColours } from "./colours.js";
import { range } from "./derive.js";
import { greyOf } from "./image.js";
import { elementOf, largestOf, percent } from "./numbers.js";
import { brightnessOf, middleOf, stroke, tileX } from "./pictures.js";
import { lightOf, makeSchedule, walkSteps } from "./play.js";
import { paintCarried } from "./recurrent.js";
import { showLight } from "./stage.js";
import {
  FAINT,
  hasLines,
  leadingHead,
  leastWeights,
  shownHead,
  shownWeights,
  wordsOf,
} from "./stageblocks.js";
import { drawsLayers, layoutPicture } from "./stagelayout.js";
import { isOff } from "./state.js";
import { askedAnswer, chainOf } from "./why.js";

export const SPAN = 4; // powers of ten from the darkest to the brightest gradient

export let stageView = null; // the layout, its schedule, and the strips as pictures, of the record that is shown

/** The view for a room; what was drawn before is used again while the numbers are the same. */
export function viewOf(e, width, height) {
  const key = [
    width,
    height,
    devicePixelRatio,
    matchMedia("(prefers-color-scheme: dark)").matches,
    e.pictureHead,
    drawsLayers(e),
    JSON.stringify(e.layers),
  ].join();
  if (stageView?.record === e.record && stageView.key === key) {
    if (stageView.pass !== e.backwardPass) Object.assign(stageView, { pass: e.backwardPass, back: null });
    return stageView;
  }
  const layout = layoutPicture(e, width, height);
  const schedule = makeSchedule(e, layout);
  stageView = {
    key,
    record: e.record,
    pass: e.backwardPass,
    layout,
    schedule,
    steps: walkSteps(schedule, layout.output),
    back: null,
    hover: null,
    word: null,
  };
  const colours = pageColours();
  stageView.colours = colours;
  stageView.font = getComputedStyle(document.documentElement).fontFamily;
  const up = shades(colours.paper, colours.positive);
  const down = shades(colours.paper, colours.negative);
  stageView.values = stripPicture(
    "values",
    layout,
    block => {
      if (!block.array) return null;
      if (block.array === "patches") return x => packed(greyOf(e, x)); // as the image has them
      const { data } = e.record.arrays[block.array];
      const largest = largestOf(data) || 1;
      return x => shade(x < 0 ? down : up, Math.abs(x) / largest);
    },
    block => e.record.arrays[block.array],
  );
  const paths = layout.blocks.map(block => block.attention).filter(Boolean);
  stageView.weights = new Map(paths.map(path => [path, shownWeights(e, path)]));
  stageView.bright = new Map(paths.map(path => [path, brightnessOf(e, path, shownHead(e, path))]));
  stageView.leads = new Map(paths.map(path => [path, leadingHead(e, path)]));
  return stageView;
}

/** A colour as the number that a canvas has for it. */
function packed(colour) {
  const [r, g, b] = colour.map(Math.round);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** From a colour to another in 256 steps. */
function shades(from, to) {
  return Uint32Array.from({ length: 256 }, (_, i) => packed(mixed(from, to, i / 255)));
}

function shade(shades, share) {
  return shades[Math.round(255 * Math.min(1, share))];
}

const canvases = {}; // by name; they are drawn on again, since a new one of the picture's size takes milliseconds

/** An empty canvas of the picture's size, in pixels of the screen. */
export function emptyCanvas(name, layout) {
  const ratio = devicePixelRatio;
  const canvas = (canvases[name] ??= document.createElement("canvas"));
  const size = [Math.ceil(layout.width * ratio), Math.ceil(layout.height * ratio)];
  if (String([canvas.width, canvas.height]) !== String(size)) [canvas.width, canvas.height] = size;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, layout.width, layout.height);
  return canvas;
}

/** The strips of all blocks in one picture: `colourOf(block)` is a function of a number, or null for none. */
function stripPicture(name, layout, colourOf, arrayOf = () => null) {
  const canvas = emptyCanvas(name, layout);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  for (const block of layout.blocks) {
    const colour = colourOf(block);
    if (!colour) continue;
    const { grid, size, tileWidth, tileHeight, tileY, count, skips } = block;
    const array = arrayOf(block);
    const { columns, rows } = grid;
    const cells = document.createElement("canvas"); // of all tokens, one above the other
    [cells.width, cells.height] = [columns, rows * count];
    const small = cells.getContext("2d");
    const image = small.createImageData(columns, rows * count);
    const pixels = new Uint32Array(image.data.buffer);
    for (let t = skips; t < count; t++) {
      for (let i = 0; i < columns * rows; i++) {
        const at = array ? shownIndex(array.data, (t - skips) * size, size, i, grid.pool) : 0;
        if (at !== null) pixels[t * columns * rows + i] = colour(array ? array.data[at] : 0);
      }
    }
    small.putImageData(image, 0, 0);
    for (let t = skips; t < count; t++)
      pen.drawImage(cells, 0, t * rows, columns, rows, tileX(block, t), tileY, tileWidth, tileHeight);
  }
  return canvas;
}

/** Of the numbers that share cell i: the place of the one that is farthest from 0; null beyond the last. */
function shownIndex(data, start, size, i, pool) {
  if (i * pool >= size) return null;
  let best = start + i * pool;
  for (let j = best + 1; j < Math.min(start + size, start + (i + 1) * pool); j++)
    if (Math.abs(data[j]) > Math.abs(data[best])) best = j;
  return best;
}

/** The strips of the gradients: brightness by size on a scale of powers of ten, which all blocks share. */
export function gradientPicture(e, view) {
  const { activations } = e.gradients();
  view.pass = e.backwardPass;
  const shown = view.layout.blocks.filter(block => block.array && block.array in activations);
  view.brightest = Math.max(
    1e-30,
    ...shown.map(block => largestOf(activations[block.array].data)),
    largestOf(activations.logits.data),
  );
  const { night, positive, negative } = view.colours;
  const bright = colour => mixed(colour, [255, 255, 255], 0.28);
  const up = shades(night, bright(positive));
  const down = shades(night, bright(negative));
  return stripPicture(
    "gradients",
    view.layout,
    block => shown.includes(block) && (x => shade(x < 0 ? down : up, gradientLight(x, view.brightest))),
    block => activations[block.array],
  );
}

/** Strips where nothing is lit yet. */
function emptyPicture({ layout, colours }) {
  const wash = packed(colours.wash);
  return stripPicture("empty", layout, block => block.array && (() => wash));
}

/** From 0 to 1: how many powers of ten a gradient is above a ten-thousandth of the largest. */
function gradientLight(x, largest) {
  return x === 0 ? 0 : Math.max(0, Math.min(1, 1 + Math.log10(Math.abs(x) / largest) / SPAN));
}

/** Draw the moment that `e.play` says. */
export function paintStage(e) {
  const canvas = document.getElementById("cells");
  const view = stageView;
  if (!canvas || !view) return;
  const light = lightOf(view, e.play);
  const pen = emptyCanvas("cells", view.layout).getContext("2d");
  if (light.loss > 0) view.back ??= gradientPicture(e, view);
  const asked = askedAnswer(e);
  const chain = chainOf(e);
  view.isChain = Boolean(chain);
  view.looking = view.word ?? (asked && { column: view.layout.output.column, t: asked.t });
  paintColumn(e, view, pen);
  for (const block of view.layout.blocks) {
    paintWires(view, pen, block, light);
    if (block.attention) paintAttention(e, view, pen, block, light);
  }
  for (const block of view.layout.blocks) if (block.array) paintStrips(view, pen, block, light);
  if (chain) paintChain(e, view, pen, chain);
  else if (view.looking) paintShares(view, pen, light);
  paintTravel(e, view, pen);
  paintMarks(e, view, pen);
  showLight(e, view, light, chain);
}

/** The column of the word whose attention is looked at, or of the cell that is selected. */
function paintColumn(e, view, pen) {
  const { looking } = view;
  const place = e.cell && placeOnStage(e, view, e.cell);
  for (const [block, t] of [
    looking && [view.layout.columns[looking.column].blocks[0], looking.t],
    place && [place.block, place.t],
  ].filter(Boolean)) {
    const { blocks } = view.layout.columns[block.column];
    const top = blocks.at(-1).y;
    pen.fillStyle = css(view.colours.accent, 0.09);
    pen.fillRect(block.x + t * block.step, top, block.step, blocks[0].y + blocks[0].height - top);
  }
}

function paintStrips(view, pen, block, light) {
  const ratio = devicePixelRatio;
  const { tileY, tileHeight, count, skips } = block;
  const draw = (picture, from, to, alpha) => {
    if (alpha <= 0 || !picture) return;
    pen.globalAlpha = alpha;
    const [x, width] = [block.x + from * block.step, (to - from) * block.step];
    pen.drawImage(
      picture,
      x * ratio,
      tileY * ratio,
      width * ratio,
      tileHeight * ratio,
      x,
      tileY,
      width,
      tileHeight,
    );
    pen.globalAlpha = 1;
  };
  const back = light.backward(block);
  let run = skips; // tokens with the same light are drawn at once
  for (let t = skips; t < count; t++) {
    const share = light.forward(block, t);
    if (t + 1 < count && light.forward(block, t + 1) === share) continue;
    if (share < 1) draw((view.empty ??= emptyPicture(view)), run, t + 1, 1);
    draw(view.values, run, t + 1, share);
    draw(view.back, run, t + 1, back);
    run = t + 1;
  }
  const isMoving = back > 0 && back < 1;
  for (let t = skips; t < count; t++) {
    const share = light.forward(block, t);
    if (!(isMoving || (share > 0 && share < 1))) continue;
    pen.strokeStyle = css(isMoving ? view.colours.flow : view.colours.accent);
    pen.lineWidth = 2;
    pen.strokeRect(tileX(block, t) - 1.5, tileY - 1.5, block.tileWidth + 3, tileHeight + 3);
  }
}

/** The wire of each token from the block below, with what runs along it. */
function paintWires(view, pen, block, light) {
  const { blocks } = view.layout.columns[block.column];
  const below = blocks[blocks.indexOf(block) - 1];
  if (!below) return;
  if (block.carried) paintCarried(view, pen, block, light);
  const from = below.array ? below.tileY : below.y + 2;
  const to = block.tileY + block.tileHeight;
  const skips = Math.max(block.skips, below.skips ?? 0);
  const isThin = block.step < 14;
  const back = light.backward(block);
  for (let t = skips; t < block.count; t++) {
    const x = middleOf(block, t);
    const share = light.forward(block, t);
    if (!isThin || t % 3 === 0)
      stroke(pen, css(view.colours.line), 1, [
        [x, from],
        [x, to],
      ]);
    if (share > 0 && !isThin)
      stroke(pen, css(view.colours.border), 1.5, [
        [x, from],
        [x, from + (to - from) * Math.min(1, 2 * share)],
      ]);
    if (back > 0)
      stroke(pen, css(view.colours.flow, isThin ? 0.5 : 0.9), isThin ? 1 : 2, [
        [x, to],
        [x, to + (from - to) * back],
      ]);
    if (!block.attention && !isThin && back > 0 && back < 1)
      paintDot(pen, view.colours.flow, x, to + (from - to) * back);
  }
}

function paintDot(pen, colour, x, y) {
  pen.fillStyle = css(colour);
  pen.beginPath();
  pen.arc(x, y, 3.5, 0, 7);
  pen.fill();
}

/** Lines from each key to each query, as wide as the weight; or small heat maps. */
function paintAttention(e, view, pen, block, light) {
  const weights = view.weights.get(block.attention);
  const [, rows, columns] = weights.shape;
  const isCross = block.attention.includes("cross");
  const isLookedAt = view.looking?.column === block.column && !isCross; // then the lines of one word are few
  if (!hasLines(e, block.attention) && !isLookedAt) return paintHeats(e, view, pen, block, light);
  const back = light.backward(block);
  const bright = view.bright.get(block.attention);
  const lead = view.leads.get(block.attention);
  if (isCross) paintRails(view, pen, block, weights, light, back);
  if (!weights.least) weights.least = leastWeights(weights);
  for (let t = 0; t < rows; t++) {
    const grown = Math.min(1, 1.6 * light.forward(block, t));
    if (grown === 0) continue;
    for (let u = 0; u < columns; u++) {
      const w = weights.data[t * columns + u];
      const [quiet, alone] = isolation(view, block, isCross, t, u);
      if (quiet || w < (alone ? FAINT : weights.least[t])) continue;
      const points = isCross ? fromRail(view, block, t, u) : selfLine(block, t, u);
      partOfCurve(
        pen,
        points,
        grown,
        css(headColour(view.colours, lead(t, u)), bright(t, u) * (alone ? 1 : 0.2 + 0.75 * w)),
        0.8 + (block.step < 40 ? 2.5 : 5) * w,
      );
      if (back > 0)
        partOfCurve(
          pen,
          [...points].reverse(),
          back,
          css(view.colours.flow, bright(t, u) * (0.15 + 0.8 * w)),
          0.8 + (block.step < 40 ? 2 : 3.5) * w,
        );
    }
  }
}

/** While one looks at a word, only its lines are drawn: [whether this one is left out, whether one looks at any]. */
function isolation({ looking, isChain }, block, isCross, t, u) {
  if (!looking) return [false, false];
  if (looking.column === block.column) return [looking.t !== t, true];
  return isCross ? [looking.t !== u, true] : [isChain, false];
}

function linesOf(block) {
  return [block.tileY + block.tileHeight + 1, block.y + block.height + block.gap / 2];
}

function selfLine(block, t, u) {
  const [top, bottom] = linesOf(block);
  const [from, to] = [middleOf(block, u), middleOf(block, t)];
  const bend = 0.5 * (bottom - top);
  return [
    [from, bottom],
    [from, bottom - bend],
    [to, top + bend],
    [to, top],
  ];
}

/** The rail of source token u: out of the encoder's top, down or up the gutter, and into the block. */
function railOf(view, block, u) {
  const source = view.layout.columns[0].blocks.at(-1);
  const [top, bottom] = linesOf(block);
  const y = source.tileY - 7 - 4 * (source.count - 1 - u);
  const x = block.x - 12 - 4 * u;
  const enter = top + 2 + ((u + 0.5) / source.count) * (bottom - top - 4);
  return [
    [middleOf(source, u), source.tileY],
    [middleOf(source, u), y],
    [x, y],
    [x, enter],
    [block.x - 4, enter],
  ];
}

function fromRail(view, block, t, u) {
  const [top] = linesOf(block);
  const [x, y] = railOf(view, block, u).at(-1);
  const to = middleOf(block, t);
  return [
    [x, y],
    [x + 0.7 * (to - x), y],
    [to, top + 0.5 * (y - top) + 4],
    [to, top],
  ];
}

function paintRails(view, pen, block, weights, light, back) {
  const [, rows, columns] = weights.shape;
  const bright = view.bright.get(block.attention);
  let grown = 0;
  for (let t = 0; t < rows; t++) grown = Math.max(grown, light.forward(block, t));
  for (let u = 0; u < columns; u++) {
    const { looking } = view;
    if (looking?.column === 0 && looking.t !== u) continue;
    let [most, brightest, query] = [0, 0, 0];
    for (let t = 0; t < rows; t++) {
      if (looking && looking.column !== 0 && looking.t !== t) continue;
      if (weights.data[t * columns + u] > most) [most, query] = [weights.data[t * columns + u], t];
      brightest = Math.max(brightest, bright(t, u));
    }
    const path = railOf(view, block, u);
    partOfPath(
      pen,
      path,
      Math.min(1, 3 * grown),
      css(headColour(view.colours, view.leads.get(block.attention)(query, u)), brightest * (0.15 + 0.6 * most)),
      1 + 1.5 * most,
    );
    if (back > 0)
      partOfPath(
        pen,
        [...path].reverse(),
        back,
        css(view.colours.flow, brightest * (0.2 + 0.7 * most)),
        1 + 1.5 * most,
      );
  }
}

/** At the other ends of the lines of the word that one looks at: its weights, the largest first. */
function paintShares(view, pen, light) {
  const {
    looking,
    layout: { blocks, columns },
  } = view;
  const shown = blocks.filter(block => block.attention && light.forward(block, block.count - 1) === 1);
  const crossed = shown
    .filter(block => block.attention.includes("cross") && looking.column === block.column)
    .reverse();
  const source = columns[0].blocks.at(-1);
  const taken = [];
  for (const block of shown) {
    const {
      shape: [, rows, keys],
      data,
    } = view.weights.get(block.attention);
    const isCross = block.attention.includes("cross");
    const [top, bottom] = linesOf(block);
    const layer = crossed.indexOf(block);
    let at = null; // [weight, x, y] of the other end i
    if (isCross && layer >= 0)
      at = range(keys, u => [
        data[looking.t * keys + u],
        middleOf(source, u),
        source.tileY + 10 + 18 * layer,
      ]);
    else if (isCross && looking.column === 0)
      at = range(rows, t => [data[t * keys + looking.t], middleOf(block, t), top + 10]);
    else if (!isCross && looking.column === block.column)
      at = range(keys, u => [data[looking.t * keys + u], middleOf(block, u), bottom - 8]);
    const largest = (at ?? []).filter(([weight]) => weight >= 0.02).sort((a, b) => b[0] - a[0]);
    const prefix = crossed.length > 1 && layer >= 0 ? `layer ${block.layer + 1}: ` : "";
    largest.forEach(([weight, x, y], i) =>
      paintPill(view, pen, `${i ? "" : prefix}${percent(weight)}`, [x, y], taken),
    );
  }
}

/** A short text on a line, if no other is there. */
function paintPill(view, pen, text, [x, y], taken) {
  pen.font = `600 13px ${view.font}`;
  const width = pen.measureText(text).width + 8;
  if (taken.some(other => Math.abs(other.x - x) < (other.width + width) / 2 && Math.abs(other.y - y) < 18))
    return;
  taken.push({ x, y, width });
  pen.fillStyle = css(view.colours.paper);
  pen.strokeStyle = css(view.colours.positive);
  pen.lineWidth = 1;
  pen.beginPath();
  pen.roundRect(x - width / 2, y - 9, width, 18, 5);
  pen.fill();
  pen.stroke();
  pen.fillStyle = css(view.colours.ink);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x, y + 0.5);
}

/** The first part of a path of straight lines. */
function partOfPath(pen, points, share, style, width) {
  if (share <= 0) return;
  const lengths = points.slice(1).map(([x, y], i) => Math.abs(x - points[i][0]) + Math.abs(y - points[i][1]));
  let left = share * lengths.reduce((sum, length) => sum + length, 0);
  const shown = [points[0]];
  for (const [i, length] of lengths.entries()) {
    const part = Math.min(1, left / (length || 1));
    const [from, to] = [points[i], points[i + 1]];
    shown.push([from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part]);
    left -= length;
    if (left <= 0) break;
  }
  stroke(pen, style, width, shown);
}

/** The first part of a Bézier curve (by de Casteljau's construction). */
function partOfCurve(pen, [a, b, c, d], share, style, width) {
  const between = (p, q) => [p[0] + (q[0] - p[0]) * share, p[1] + (q[1] - p[1]) * share];
  const [ab, bc, cd] = [between(a, b), between(b, c), between(c, d)];
  const [abc, bcd] = [between(ab, bc), between(bc, cd)];
  const end = between(abc, bcd);
  pen.strokeStyle = style;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(a[0], a[1]);
  pen.bezierCurveTo(ab[0], ab[1], abc[0], abc[1], end[0], end[1]);
  pen.stroke();
}

/** A small heat map of each head, side by side: queries down, keys across. */
function paintHeats(e, view, pen, block, light) {
  const weights = e.record.arrays[`${block.attention}.weights`];
  const [heads, rows, columns] = weights.shape;
  const [top, bottom] = linesOf(block);
  const size = bottom - top - 2;
  view.heats ??= new Map();
  if (!view.heats.has(block.attention))
    view.heats.set(
      block.attention,
      range(heads, head => heatCells(view, weights, head)),
    );
  const back = light.backward(block);
  const step = Math.min(size * 2.2, block.width / heads);
  pen.imageSmoothingEnabled = true;
  view.heats.get(block.attention).forEach((cells, head) => {
    const x = block.x + block.width / 2 + (head - heads / 2) * step + step / 2 - size / 2;
    pen.fillStyle = css(view.colours.paper);
    pen.fillRect(x, top + 1, size, size);
    const most =
      (isOff(e, block.attention, head) ? 0.2 : 1) *
      (e.pictureHead === null || e.pictureHead === head ? 1 : 0.35);
    let run = 0; // queries with the same light are drawn at once
    for (let t = 0; t < rows; t++) {
      const share = light.forward(block, t);
      if (t + 1 < rows && light.forward(block, t + 1) === share) continue;
      pen.globalAlpha = share * most;
      pen.drawImage(
        cells,
        0,
        run,
        columns,
        t + 1 - run,
        x,
        top + 1 + (size * run) / rows,
        size,
        (size * (t + 1 - run)) / rows,
      );
      run = t + 1;
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = css(back > 0 ? view.colours.flow : view.colours.border);
    pen.lineWidth = back > 0 ? 2 : 1;
    pen.strokeRect(x, top + 1, size, size);
  });
}

function heatCells(view, { data, shape: [, rows, columns] }, head) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = shades(view.colours.paper, headColour(view.colours, head));
  for (let i = 0; i < rows * columns; i++)
    pixels[i] = shade(ramp, Math.sqrt(data[head * rows * columns + i]));
  pen.putImageData(image, 0, 0);
  return canvas;
}

// ------------------------------------------------------------ cells

/** Which cell is at a point of the canvas: its block, token and the place of its number; null between strips. */
export function cellAt(e, view, x, y) {
  for (const block of view.layout.blocks) {
    if (!block.array || y < block.tileY || y >= block.tileY + block.tileHeight) continue;
    const t = Math.floor((x - block.x) / block.step);
    if (t < block.skips || t >= block.count || x < tileX(block, t) || x >= tileX(block, t) + block.tileWidth)
      continue;
    const { grid, size } = block;
    const column = Math.floor(((x - tileX(block, t)) / block.tileWidth) * grid.columns);
    const row = Math.floor(((y - block.tileY) / block.tileHeight) * grid.rows);
    const gradient = lightOf(view, e.play).backward(block) >= 0.5;
    const { data } = (gradient ? e.gradients().activations : e.record.arrays)[block.array];
    const at = shownIndex(data, (t - block.skips) * size, size, row * grid.columns + column, grid.pool);
    if (at === null) return null;
    return {
      block,
      t,
      cell: { name: block.array, index: [Math.floor(at / size), at % size], gradient, weight: false },
    };
  }
  return null;
}

/** Where the number of a place is drawn; null if it is not. */
export function placeOnStage(e, view, { name, index, weight }) {
  const block = weight ? null : view.layout.blocks.find(each => each.array === name);
  if (!block || index.length !== 2) return null;
  const t = index[0] + block.skips;
  const cell = Math.floor(index[1] / block.grid.pool);
  const [w, hgt] = [block.tileWidth / block.grid.columns, block.tileHeight / block.grid.rows];
  return {
    block,
    t,
    x: tileX(block, t) + (cell % block.grid.columns) * w,
    y: block.tileY + Math.floor(cell / block.grid.columns) * hgt,
    w,
    h: hgt,
  };
}

export const DIM = 0.3; // of what an answer does not come from

/** Whether a token is one of the two ends of the chain: the column of the answer, and the one that it looked at. */
export function isInChain(view, { t, path, best }, column, token) {
  const last = view.layout.columns.length - 1;
  return (
    (column === last && token === t) || (column === (path.includes("cross") ? 0 : last) && token === best)
  );
}

/** Of the answer that is asked about: the line of the head that decided; what else there is, is dimmed. */
function paintChain(e, view, pen, chain) {
  const { columns, blocks } = view.layout;
  pen.fillStyle = css(view.colours.paper, 1 - DIM);
  columns.forEach(({ blocks: [base, ...others] }, i) => {
    const top = others.at(-1).y;
    for (let t = 0; t < base.count; t++)
      if (!isInChain(view, chain, i, t)) pen.fillRect(base.x + t * base.step, top, base.step, base.y - top);
  });
  const block = blocks.find(each => each.attention === chain.path);
  if (!block) return; // of a folded stack, another layer is shown
  const { t, best, head, path } = chain;
  const colour = css(headColour(view.colours, head));
  const isCross = path.includes("cross");
  if (isCross) partOfPath(pen, railOf(view, block, best), 1, colour, 3.5);
  partOfCurve(pen, isCross ? fromRail(view, block, t, best) : selfLine(block, t, best), 1, colour, 4);
  const weight = elementOf(e.record.arrays[`${path}.weights`], [head, t, best]);
  const heads = e.record.arrays[`${path}.weights`].shape[0];
  const y = linesOf(block)[0] + 14;
  paintPill(
    view,
    pen,
    `${heads > 1 ? `head ${head + 1}: ` : ""}${percent(weight)}`,
    [middleOf(block, t), y],
    [],
  );
}

/** The word that was written, on its way to the next input. */
function paintTravel(e, view, pen) {
  const { schedule, layout } = view;
  const found = e.play.step === null && schedule.travelling(e.play.at);
  if (!found) return;
  const { output, columns } = layout;
  const [base] = columns.at(-1).blocks;
  const { t, share } = found;
  const part = share * share * (3 - 2 * share); // slow at both ends
  const from = [middleOf(output, t), output.y + output.height - 8];
  const to = [middleOf(base, t + 1), base.y + 12];
  const x = from[0] + part * (to[0] - from[0]);
  const word = wordsOf(e, base.side)[t + 1];
  paintPill(view, pen, word, [x, from[1] + part * (to[1] - from[1])], []);
}

/** Frames around the selected cell, and around its strip. */
function paintMarks(e, view, pen) {
  const { hover } = view;
  const place = e.cell && placeOnStage(e, view, e.cell);
  for (const [found, isFirm] of [
    [hover && placeOnStage(e, view, hover.cell), false],
    [place, true],
  ]) {
    if (!found) continue;
    const { block, t } = found;
    pen.strokeStyle = css(view.colours.accent);
    pen.lineWidth = isFirm ? 2.5 : 1.5;
    pen.strokeRect(tileX(block, t) - 1, block.tileY - 1, block.tileWidth + 2, block.tileHeight + 2);
    pen.strokeStyle = css(view.colours.ink);
    pen.lineWidth = 1.5;
    pen.strokeRect(found.x - 1, found.y - 1, found.w + 2, found.h + 2);
  }
}
