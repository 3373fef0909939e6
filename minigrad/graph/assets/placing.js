// The layout: sizes from the inside out, then coordinates within each open group.
//
// placing.py does the same in Python and explains it; a test compares them. Rows and their order are in the
// data (arrangement.py): they do not depend on what is open.

import { contentsOf, laneId, linesOf, shownVertex } from "./data.js";
import { innerOf, itemsOf, memberOf, openGroup } from "./folding.js";
import { range } from "./walk.js";

const ROW_GAP = 28,
  BARE_GAP = 10,
  COLUMN_GAP = 20,
  LANE_GAP = 12,
  SIDE_GAP = 44,
  ARROW = 9,
  CLEAR = 7;
export const PADDING = 14,
  HEADER = 10,
  ROUNDS = 6,
  STRAIGHT = 6;
export const TITLE = 15, // sizes of letters
  TEXT = 12.5,
  NAME = 13.5,
  LINE = 15,
  MAP = 36,
  TAB = 11,
  KNOB = 24;

const isLane = cell => cell.kind === "lane";

/** All boxes, frames of open groups and lines, with coordinates in one system. */
export function layOut(graph, state) {
  const root = placeGroup(graph, state, 0);
  const scene = { boxes: [], frames: [], lines: [], width: root.width, height: root.height };
  collect(graph, state, root, 0, 0, scene);
  return scene;
}

function collect(graph, state, frame, dx, dy, scene) {
  frame.rows.forEach((row, r) =>
    row.forEach((cell, i) => {
      const { x, y, width, height } = frame.places[r][i];
      const box = { id: cell.id, kind: cell.kind, index: cell.index, x: x + dx, y: y + dy, width, height };
      const inner = frame.frames.get(cell.id);
      if (inner) {
        scene.frames.push({ ...box, kind: "frame", tab: inner.tab });
        collect(graph, state, inner, box.x, box.y, scene);
      } else if (!isLane(cell)) scene.boxes.push(box);
    }),
  );
  for (const line of frame.lines) {
    const bend = line.bend && line.bend.map(y => y + dy);
    const side = line.side === null ? null : line.side + dx;
    scene.lines.push({
      ...line,
      x1: line.x1 + dx,
      x2: line.x2 + dx,
      y1: line.y1 + dy,
      y2: line.y2 + dy,
      bend,
      side,
    });
  }
}

/** An open group's frame with its contents. */
function placeGroup(graph, state, group) {
  const inner = innerOf(graph, state, group);
  const frame = {
    ...graph.arrangements[inner],
    group,
    inner,
    frames: new Map(),
    places: [],
    lines: [],
    width: 0,
    height: 0,
    tab: TAB,
  };
  for (const id of itemsOf(graph, state, group)) {
    const index = Number(id.slice(1));
    if (id[0] === "g" && state.open.has(index)) frame.frames.set(id, placeGroup(graph, state, index));
  }
  placeCells(graph, state, frame);
  if (group !== 0) placeTab(graph, state, frame);
  drawLines(graph, frame);
  return frame;
}

/** The tab is where no line enters, if need be at the right of all. */
function placeTab(graph, state, frame) {
  const wide = titleWidth(graph, state, frame.group) - 2 * TAB;
  const isInlet = (cell, i) => (isLane(cell) && frame.inlets.includes(cell.id) ? [frame.places[0][i].x] : []);
  const lines = (frame.rows[0] ?? []).flatMap(isInlet).sort((a, b) => a - b);
  const starts = [TAB, ...lines.map(x => Math.max(TAB, x + CLEAR))];
  const ends = [...lines, frame.width];
  frame.tab = starts.find((start, i) => start + wide + CLEAR <= ends[i]) ?? starts.at(-1);
  frame.width = Math.max(frame.width, frame.tab + wide + TAB);
}

function placeCells(graph, state, frame) {
  const { rows } = frame;
  const sizes = rows.map(row => row.map(cell => sizeOf(graph, state, frame, cell)));
  const left = fitColumns(graph, frame, sizes);
  const margin = frame.group === 0 ? 0 : PADDING;
  const start = Math.min(...left.flat(), Infinity);
  const content = Math.max(...left.flatMap((row, r) => row.map((x, i) => x + sizes[r][i].width)), -Infinity);
  const wide = left.flat().length ? content - start : 0;
  frame.width = Math.max(wide + 2 * margin, frame.group === 0 ? 0 : titleWidth(graph, state, frame.group));
  const shift = (frame.width - wide) / 2 - (left.flat().length ? start : 0);
  let y = margin + (frame.group === 0 ? 0 : HEADER);
  const level = frame.sides.map(side => side.row);
  rows.forEach((row, r) => {
    const tallest = Math.max(0, ...sizes[r].map(size => size.height));
    const part = level.includes(r) ? 0 : 0.5; // parts side by side begin at one height
    frame.places.push(
      sizes[r].map((size, i) => ({ ...size, x: left[r][i] + shift, y: y + part * (tallest - size.height) })),
    );
    const next = rows[r + 1] ?? [];
    const bare = row.every(isLane) || (r + 1 < rows.length && next.every(isLane));
    const tab = bare && next.some(cell => frame.frames.has(cell.id)) ? TAB : 0;
    y += tallest + tab + (bare ? BARE_GAP : r + 1 < rows.length ? ROW_GAP : 0);
  });
  frame.height = y + margin;
}

/** Left sides of all cells: sweeps down and up move each row as close as possible to its neighbours. */
function fitColumns(graph, frame, sizes) {
  const { rows, links } = frame;
  const spaces = gapsOf(frame);
  const left = rows.map((_, r) => packed(sizes[r], spaces[r]));
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    const down = turn % 2 === 0;
    const order = range(rows.length).slice(down ? 1 : 0, down ? undefined : -1);
    for (const r of down ? order : order.reverse()) {
      const fixed = down ? r - 1 : r + 1;
      const wishes = rows[r].map(() => []);
      const up = Math.min(r, fixed);
      for (const link of links[up]) {
        const above = outlet(graph, frame, rows[up][link.above], sizes[up][link.above].width, link);
        const below = inlet(graph, frame, rows[up + 1][link.below], sizes[up + 1][link.below].width, link);
        if (down) wishes[link.below].push(left[fixed][link.above] + above - below);
        else wishes[link.above].push(left[fixed][link.below] + below - above);
      }
      left[r] = fitted(rows[r], sizes[r], spaces[r], left[r], wishes);
    }
  }
  return left;
}

function drawLines(graph, frame) {
  const { rows, links, places, lines } = frame;
  const isOpen = cell => frame.frames.has(cell.id);
  const tops = places.map(row => Math.min(...row.map(place => place.y)));
  const bottoms = places.map(row => Math.max(...row.map(place => place.y + place.height)));
  rows.forEach((row, r) =>
    row.forEach((cell, i) => {
      if (!isLane(cell)) return;
      const x = places[r][i].x + places[r][i].width / 2;
      const enters = r === 0 && graph.arrangements[frame.inner].inlets.includes(cell.id);
      const y1 = enters ? 0 : tops[r];
      const y2 = r === rows.length - 1 ? frame.height : bottoms[r];
      lines.push({
        vertex: cell.index,
        result: cell.result,
        x1: x,
        y1,
        x2: x,
        y2,
        bend: null,
        target: -1,
        place: -1,
        side: null,
        hasArrow: false,
      });
    }),
  );
  links.forEach((between, r) => {
    for (const link of between) {
      const [above, below] = [rows[r][link.above], rows[r + 1][link.below]];
      const [from, to] = [places[r][link.above], places[r + 1][link.below]];
      const hasArrow = !isLane(below) && !isOpen(below);
      const end = rows[r + 1].some(isOpen) ? TAB : hasArrow ? ARROW : 0;
      lines.push({
        vertex: link.vertex,
        result: link.result,
        x1: from.x + outlet(graph, frame, above, from.width, link),
        y1: isLane(above) ? bottoms[r] : from.y + from.height,
        x2: to.x + inlet(graph, frame, below, to.width, link),
        y2: isLane(below) ? tops[r + 1] : to.y,
        bend: [bottoms[r], tops[r + 1] - end],
        target: below.kind === "vertex" ? below.index : -1,
        place: link.place,
        side: null,
        hasArrow,
      });
    }
  });
  for (const side of frame.sides) {
    const [left, right] = [side.left, side.right].map(i => places[side.row][i]);
    const [above, below] = [side.left, side.right].map(i => rows[side.row][i]);
    lines.push({
      vertex: side.vertex,
      result: side.result,
      target: -1,
      place: -1,
      x1: left.x + outlet(graph, frame, above, left.width, side),
      y1: left.y + left.height,
      x2: right.x + inlet(graph, frame, below, right.width, side),
      y2: right.y,
      bend: [bottoms[side.row] + 10, tops[side.row] - TAB - CLEAR],
      side: right.x - SIDE_GAP / 2,
      hasArrow: !isOpen(below),
    });
  }
}

// ---------------------------------------------------------------- cells

function sizeOf(graph, state, frame, cell) {
  if (isLane(cell)) return { width: 0, height: 0 };
  const inner = frame.frames.get(cell.id);
  if (inner) return { width: inner.width, height: inner.height };
  return sizeOfText(
    graph,
    linesOf(graph, cell.id, state.colour),
    shownVertex(graph, cell.id).heat.filter(Boolean).length,
  );
}

/** An upper bound of a text's width; labels.py has the widths of letters. */
function textWidth(graph, text, size, isBold = false) {
  let width = 0;
  for (const letter of text) {
    const kind = graph.letters.findIndex(letters => letters.includes(letter));
    width += graph.widths[kind >= 0 ? kind : letter < "\u1100" ? 4 : 5][isBold ? 1 : 0];
  }
  return size * width;
}

/** Width and height of a box with these lines, and heat maps beside them. */
function sizeOfText(graph, lines, maps) {
  const widths = lines.map((line, i) => textWidth(graph, line, i ? TEXT : TITLE, !i));
  const width = Math.max(64, Math.max(...widths) + 24 + maps * MAP);
  return { width, height: LINE * lines.length + 14 };
}

function titleWidth(graph, state, group) {
  const found = graph.groups[group];
  return tabWidth(graph, found) + memberNote(graph, state, found).width + KNOB + 2 * TAB;
}

/** The width of the tab with an open group's name and kind. */
export function tabWidth(graph, { shownName, shownKind }) {
  const beside = shownKind ? 8 + textWidth(graph, shownKind, NAME) : 0;
  return 16 + textWidth(graph, shownName, NAME, true) + beside;
}

/** Where, from its left side, a tensor leaves a cell. */
function outlet(graph, frame, cell, width, link) {
  if (cell.kind === "vertex")
    return (width * (link.result + 1)) / (graph.vertices[cell.index].values.length + 1);
  const inner = frame.frames.get(cell.id);
  if (!inner) return width / 2;
  return laneAt(inner, inner.rows.length - 1, counterpart(graph, cell.index, inner.inner, link)) ?? width / 2;
}

/** Where, from its left side, a tensor enters a cell. */
function inlet(graph, frame, cell, width, link) {
  if (cell.kind === "vertex")
    return (width * (link.place + 1)) / (graph.vertices[cell.index].inputs.length + 1);
  const inner = frame.frames.get(cell.id);
  if (!inner) return width / 2;
  return laneAt(inner, 0, arrival(graph, cell.index, inner.inner, link)) ?? width / 2;
}

function laneAt(frame, row, id) {
  const i = id === null || !frame.rows.length ? -1 : frame.rows[row].findIndex(cell => cell.id === id);
  return i < 0 ? null : frame.places[row][i].x + frame.places[row][i].width / 2;
}

/** The tensor in member `inner` of a stack that corresponds to a tensor in another member. */
function counterpart(graph, group, inner, { vertex, result }) {
  if (group === inner) return laneId(vertex, result);
  for (const member of graph.groups[group].groups) {
    const place = contentsOf(graph, member).indexOf(vertex);
    if (place >= 0) return laneId(contentsOf(graph, inner)[place], result);
  }
  return null;
}

/** The tensor that enters member `inner` of a stack as `tensor` enters the first member. */
function arrival(graph, group, inner, { vertex, result }) {
  const id = laneId(vertex, result);
  if (group === inner) return id;
  for (const member of graph.groups[group].groups) {
    const slot = graph.arrangements[member].inlets.indexOf(id);
    if (slot >= 0) return graph.arrangements[inner].inlets[slot] ?? null;
  }
  return null;
}

// ---------------------------------------------------------------- a row

/** The space after each cell of each row. */
function gapsOf({ rows, sides }) {
  const found = rows.map(row =>
    row.map((cell, i) =>
      i + 1 === row.length ? 0 : isLane(cell) || isLane(row[i + 1]) ? LANE_GAP : COLUMN_GAP,
    ),
  );
  for (const { row, right } of sides) found[row][right - 1] = SIDE_GAP;
  return found;
}

/** Left sides of cells side by side, centered at 0. */
function packed(sizes, spaces) {
  let x = 0;
  const found = sizes.map(({ width }, i) => {
    const at = x;
    x += width + spaces[i];
    return at;
  });
  return found.map(at => at - x / 2);
}

/** Left sides nearest to the mean targets, in order, with gaps (pool adjacent violators). */
function fitted(row, sizes, spaces, now, wishes) {
  const shifts = [];
  let shift = 0;
  row.forEach((_, i) => {
    shifts.push(shift);
    shift += sizes[i].width + spaces[i];
  });
  const pools = [];
  row.forEach((cell, i) => {
    const wish = wishes[i].length ? wishes[i].reduce((a, b) => a + b, 0) / wishes[i].length : now[i];
    const weight = (isLane(cell) ? STRAIGHT : 1) * (wishes[i].length || 0.1);
    pools.push({ weight, total: weight * (wish - shifts[i]), cells: 1 });
    while (
      pools.length > 1 &&
      pools.at(-2).total / pools.at(-2).weight > pools.at(-1).total / pools.at(-1).weight
    ) {
      const last = pools.pop();
      for (const key of ["weight", "total", "cells"]) pools.at(-1)[key] += last[key];
    }
  });
  const means = pools.flatMap(pool => range(pool.cells).map(() => pool.total / pool.weight));
  return means.map((mean, i) => mean + shifts[i]);
}

/** Open larger groups first, as long as `fits(scene)`: as fitting.py does for a window of the usual size. */
export function openWhatFits(graph, state, fits) {
  if (!graph.openings.length) return;
  state.open = new Set([0]);
  for (const batch of graph.openings) {
    const more = batch.filter(index => state.open.has(graph.groups[index].parent));
    const before = state.open;
    state.open = new Set(before);
    for (const index of more) openGroup(graph, state, index);
    if (more.length && !fits(layOut(graph, state))) {
      state.open = before;
      return;
    }
  }
}

/** Which member of a stack is drawn, where it is not the first: a text and its width. */
export function memberNote(graph, state, group) {
  const member = group.isStack ? memberOf(state, group.index) : 0;
  const text = member > 0 ? `, here ${graph.groups[group.groups[member]].name}` : "";
  return { text, width: textWidth(graph, text, NAME) };
}
