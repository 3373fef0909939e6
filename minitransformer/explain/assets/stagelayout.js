// Where everything of the picture is: boxes in pixels, computed from the room there is.

import { MOST_LINES, stackBlocks, wordsOf } from "./stageblocks.js";

export const WIDE = 1280; // from this width on, there is room for all blocks of a layer
const BESIDE = 700; // from this width on, what is said stands beside the picture
const [LEAST_WIDE, LEAST_COMPACT, MOST_UNIT, MOST_COMPACT] = [20, 17, 50, 110]; // heights of a unit
const MARGIN = 14;

/** Whether each layer is one block: on the overview, unless one asks for more, and where there is little room. */
export function drawsLayers(e) {
  return document.documentElement.clientWidth < WIDE || (e.screen === "walkthrough" && !e.detail);
}

/** The picture's boxes for a room of `width` × `height`; taller if that is too little. */
export function layoutPicture(e, width, height) {
  const isCompact = drawsLayers(e);
  const { stacks } = e.structure;
  const fold = stacks.map(() => null);
  const make = () =>
    stacks.map((stack, i) => ({ stack, blocks: stackBlocks(e, stack, { isCompact, layer: fold[i] }) }));
  const room = roomOf(e, width, height, isCompact);
  let columns = make();
  const least = isCompact ? LEAST_COMPACT : LEAST_WIDE;
  const unitFor = () =>
    Math.min(
      ...columns.map(
        ({ blocks }, i) => room.heights[i] / blocks.reduce((sum, block) => sum + block.units, 0),
      ),
    );
  while (unitFor() < least) {
    // the stack with the most layers folds first
    const open = stacks.map((stack, i) => (fold[i] === null ? stack.layers : 1));
    const i = open.indexOf(Math.max(...open));
    if (open[i] === 1) break;
    fold[i] = Math.min(e.layers[stacks[i].name], stacks[i].layers - 1);
    columns = make();
  }
  const unit = Math.max(least, Math.min(isCompact ? MOST_COMPACT : MOST_UNIT, unitFor()));
  const bottom = Math.max(
    width < BESIDE ? 0 : height - 4,
    ...columns.map(
      ({ blocks }, i) =>
        room.top[i] + room.words + unit * blocks.reduce((sum, block) => sum + block.units, 0) + 4,
    ),
  );
  columns.forEach((column, i) => placeColumn(e, column, { ...room, unit, bottom, isCompact }, i));
  const blocks = columns.flatMap(column => column.blocks);
  const layout = {
    width,
    height: bottom + 4,
    isCompact,
    unit,
    room,
    columns,
    blocks,
    isFolded: fold.some(each => each !== null),
    fold,
  };
  layout.output = placeOutput(e, layout);
  layout.panel = width < BESIDE ? null : panelOf(layout);
  return layout;
}

const SMALLEST_STEP = 10; // pixels from word to word: below, there is no room for each

/** How the width is divided among labels, tokens and the gutter, and the height that is left for blocks. */
function roomOf(e, width, height, isCompact) {
  const { stacks } = e.structure;
  const hasPanel = width >= BESIDE;
  const counts = stacks.map(stack => wordsOf(e, stack.name === "decoder" ? "target" : "source").length);
  const label = isCompact ? (width < 600 ? 70 : 96) : 150;
  const gutter = stacks.length > 1 ? (isCompact ? 22 : 40) + 4 * Math.min(counts[0], MOST_LINES) : 0;
  const side = stacks.length > 1 || !hasPanel ? 0 : width < 1000 ? 230 : 330; // for the panel
  const left = MARGIN + side;
  const free = width - left - MARGIN - stacks.length * label - gutter - (stacks.length === 1 ? 10 : 0);
  const share = counts.map(count => Math.max(count, 2));
  const total = share.reduce((sum, count) => sum + count, 0);
  const step = Math.min(width < WIDE ? 90 : Math.max(118, width / 11), free / total);
  const widths = share.map(count => count * step);
  const slack = free - total * step;
  const start = left + (stacks.length === 1 ? slack / 2 : 0);
  const x =
    stacks.length === 1 ? [start + label] : [start + label, start + label + widths[0] + gutter + slack];
  const longest = Math.max(
    ...stacks
      .flatMap(stack => wordsOf(e, stack.name === "decoder" ? "target" : "source"))
      .map(word => word.length),
  );
  const every = step < SMALLEST_STEP ? Math.ceil(60 / step) : 1; // of many words, some are written
  const isTurned = every === 1 && step < Math.min(40, 8 * longest + 1) && !e.isImage; // words stand upright
  const words = e.isImage ? 0 : isTurned ? Math.max(24, Math.min(72, 8.8 * longest + 10)) : 24;
  const isNarrow = step < 62 || counts.at(-1) !== e.record.arrays.logits.shape[0];
  const rails = !hasPanel && stacks.length > 1 ? 4 * Math.min(counts[0], MOST_LINES) : 0; // above the encoder
  const output = (isNarrow ? 84 : width < WIDE ? 62 : 78) + rails;
  const panel =
    stacks.length === 1
      ? 4
      : hasPanel
        ? isCompact
          ? Math.min(width < 1000 ? 280 : 260, 0.47 * height)
          : 190
        : output + 12;
  const top = stacks.map((_, i) => (i === stacks.length - 1 ? output + 8 : panel));
  const heights = top.map(each => height - each - words - 10);
  return {
    counts,
    label,
    gutter,
    step,
    widths,
    x,
    words,
    every,
    isTurned,
    isNarrow,
    output,
    rails,
    top,
    heights,
    side,
  };
}

function placeColumn(e, { stack, blocks }, room, i) {
  const { unit, step, words, isCompact } = room;
  const x = room.x[i];
  const labelsRight = i === 1;
  let y = room.bottom;
  const gap = Math.max(4, Math.min(13, 0.28 * unit));
  for (const block of blocks) {
    const height = block.units ? block.units * unit : words;
    y -= height;
    const count = room.counts[i];
    Object.assign(block, { y, height, x, width: count * step, step, count, labelsRight, column: i });
    if (block.array)
      placeTiles(e, block, block.carried ? height - 2 * gap : block.units ? unit - gap : height, gap);
    const labelX = labelsRight
      ? x + room.widths[1] + (isCompact ? 4 : 24)
      : x - room.label + (isCompact ? 0 : 2);
    block.tag = {
      x: labelX,
      y: block.array ? block.tileY : y + 2,
      width: room.label - (isCompact ? 8 : 24),
      height: block.array ? block.tileHeight : 20,
    };
  }
}

/** The strip of each token: cells of its vector in a rectangle; of a long vector, several numbers share a cell. */
function placeTiles(e, block, most, gap) {
  const { shape } = e.record.arrays[block.array];
  const size = shape.at(-1);
  const skips = block.count - shape.at(-2); // patches: none for [CLS]
  const width = Math.max(2, Math.min(block.step - Math.min(14, Math.max(1, 0.16 * block.step)), 150));
  const patch = Math.sqrt(size);
  if (block.array === "patches" && Number.isInteger(patch)) {
    // of one channel: the square that was cut out
    const side = Math.min(width, most);
    return Object.assign(block, {
      grid: { columns: patch, rows: patch, pool: 1 },
      skips,
      size,
      tileWidth: side,
      tileHeight: side,
      tileY: block.y + gap / 2,
      gap,
    });
  }
  const grid = gridOf(size, width, most);
  const tileWidth = width / grid.columns >= 2 ? grid.columns * Math.floor(width / grid.columns) : width;
  Object.assign(block, { grid, skips, size, tileWidth, tileHeight: most, tileY: block.y + gap / 2, gap });
}

/** Columns and rows for `size` numbers in width × height, and how many numbers share a cell of at least 2 px. */
function gridOf(size, width, height) {
  const most = Math.max(1, Math.floor(width / 2)) * Math.max(1, Math.floor(height / 2));
  const pool = Math.ceil(size / most);
  const count = Math.ceil(size / pool);
  let best = null;
  for (let columns = 1; columns <= Math.min(count, Math.max(1, Math.floor(width / 2))); columns++) {
    const rows = Math.ceil(count / columns);
    if (rows * 2 > Math.max(height, 2)) continue;
    const shape = Math.abs(Math.log(width / columns / (height / rows)));
    const cost = shape + (columns * rows - count) / count;
    if (!best || cost < best.cost) best = { columns, rows, cost };
  }
  const { columns, rows } = best ?? { columns: 1, rows: 1 };
  return { columns, rows, pool: Math.ceil(size / (columns * rows)) };
}

/** Where the probabilities are: in each token's column, or of one token where columns are narrow. */
function placeOutput(e, { columns, room }) {
  const { blocks } = columns.at(-1);
  const below = blocks.at(-1);
  const isOneRow = e.record.arrays.logits.shape[0] === 1;
  const x = below.x;
  return {
    id: "probabilities",
    text: "Softmax",
    label: "Softmax",
    kind: "softmax",
    to: "probabilities",
    stack: below.stack,
    side: below.side,
    x,
    y: below.y - room.output,
    room: room.widths.at(-1),
    height: room.output - 6 - room.rails,
    step: below.step,
    count: below.count,
    column: columns.length - 1,
    isNarrow: room.isNarrow || isOneRow,
    isOneRow,
    labelsRight: below.labelsRight,
    tag: { ...below.tag, y: below.y - room.output + 2, height: 20 },
  };
}

/** The free place: above the encoder, or at the left of a single stack. */
function panelOf({ columns, room, height, output, isCompact }) {
  if (columns.length === 1) return { x: MARGIN, y: 6, width: room.side - 24, height: height - 14 };
  const top = Math.min(...columns[0].blocks.map(block => block.y));
  const rails = isCompact ? 14 + 4 * Math.min(room.counts[0], MOST_LINES) : 26; // lines above the encoder
  return { x: MARGIN, y: 6, width: output.x - room.gutter - MARGIN + 20, height: top - rails };
}
