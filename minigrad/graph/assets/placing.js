// The layout: sizes from the inside out, then coordinates within each open group.
//
// placing.py does the same in Python and explains it; a test compares them. Rows and their order are in the
// data (arrangement.py): they do not depend on what is open.

const ROW_GAP = 36,
  BARE_GAP = 14,
  COLUMN_GAP = 20,
  LANE_GAP = 12,
  ARROW = 9;
const PADDING = 16,
  HEADER = 22,
  ROUNDS = 6,
  STRAIGHT = 6;
const TITLE = 15, // sizes of letters
  TEXT = 12.5,
  NAME = 13.5,
  TAB = 11;

const isLane = cell => cell.kind === "lane";

/** All boxes, frames of open groups and lines, with coordinates in one system. */
function layOut(graph, state) {
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
        scene.frames.push({ ...box, kind: "frame" });
        collect(graph, state, inner, box.x, box.y, scene);
      } else if (!isLane(cell)) scene.boxes.push(box);
    }),
  );
  for (const line of frame.lines) {
    const bend = line.bend && line.bend.map(y => y + dy);
    scene.lines.push({
      ...line, x1: line.x1 + dx, x2: line.x2 + dx, y1: line.y1 + dy, y2: line.y2 + dy, bend,
    });
  }
}

/** An open group's frame with its contents. */
function placeGroup(graph, state, group) {
  const inner = innerOf(graph, state, group);
  const { rows, links } = graph.arrangements[inner];
  const frame = { group, inner, rows, links, frames: new Map(), places: [], lines: [], width: 0, height: 0 };
  for (const id of itemsOf(graph, state, group)) {
    const index = Number(id.slice(1));
    if (id[0] === "g" && state.open.has(index)) frame.frames.set(id, placeGroup(graph, state, index));
  }
  placeCells(graph, state, frame);
  drawLines(graph, frame);
  return frame;
}

function placeCells(graph, state, frame) {
  const { rows } = frame;
  const sizes = rows.map(row => row.map(cell => sizeOf(graph, state, frame, cell)));
  const left = fitColumns(graph, frame, sizes);
  const margin = frame.group === 0 ? 0 : PADDING;
  const start = Math.min(...left.flat(), Infinity);
  const content = Math.max(...left.flatMap((row, r) => row.map((x, i) => x + sizes[r][i].width)), -Infinity);
  const wide = left.flat().length ? content - start : 0;
  frame.width = Math.max(wide + 2 * margin, frame.group === 0 ? 0 : titleWidth(graph, frame.group));
  const shift = (frame.width - wide) / 2 - (left.flat().length ? start : 0);
  let y = margin + (frame.group === 0 ? 0 : HEADER);
  rows.forEach((row, r) => {
    const tallest = Math.max(0, ...sizes[r].map(size => size.height));
    frame.places.push(
      sizes[r].map((size, i) => ({ ...size, x: left[r][i] + shift, y: y + (tallest - size.height) / 2 })),
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
  const left = rows.map((row, r) => packed(row, sizes[r]));
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
      left[r] = fitted(rows[r], sizes[r], left[r], wishes);
    }
  }
  return left;
}

function drawLines(graph, frame) {
  const { rows, links, places, lines } = frame;
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
        vertex: cell.index, result: cell.result, x1: x, y1, x2: x, y2, bend: null, target: -1, place: -1,
      });
    }),
  );
  links.forEach((between, r) => {
    for (const link of between) {
      const [above, below] = [rows[r][link.above], rows[r + 1][link.below]];
      const [from, to] = [places[r][link.above], places[r + 1][link.below]];
      const arrives = below.kind === "vertex";
      const end = arrives ? ARROW : frame.frames.has(below.id) ? TAB : 0;
      lines.push({
        vertex: link.vertex, result: link.result, x1: from.x + outlet(graph, frame, above, from.width, link),
        y1: isLane(above) ? bottoms[r] : from.y + from.height,
        x2: to.x + inlet(graph, frame, below, to.width, link), y2: isLane(below) ? tops[r + 1] : to.y,
        bend: [bottoms[r], tops[r + 1] - end], target: arrives ? below.index : -1,
        place: link.place,
      });
    }
  });
}

// ---------------------------------------------------------------- cells

function sizeOf(graph, state, frame, cell) {
  if (isLane(cell)) return { width: 0, height: 0 };
  const inner = frame.frames.get(cell.id);
  if (inner) return { width: inner.width, height: inner.height };
  return sizeOfText(graph, linesOf(graph, cell.id, state.colour));
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

/** Width and height of a box with these lines. */
function sizeOfText(graph, lines) {
  const widths = lines.map((line, i) => textWidth(graph, line, i ? TEXT : TITLE, !i));
  return { width: Math.max(64, Math.max(...widths) + 24), height: 14 + 20 + 16 * (lines.length - 1) };
}

function titleWidth(graph, group) {
  return tabWidth(graph, graph.groups[group]) + TAB + 34;
}

/** The width of the tab with an open group's name and kind. */
function tabWidth(graph, { shownName, shownKind }) {
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

const laneId = (vertex, result) => `l${vertex}.${result}`;

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

/** The space after each cell. */
function gaps(row) {
  return row.map((cell, i) =>
    i + 1 === row.length ? 0 : isLane(cell) || isLane(row[i + 1]) ? LANE_GAP : COLUMN_GAP,
  );
}

/** Left sides of cells side by side, centered at 0. */
function packed(row, sizes) {
  const spaces = gaps(row);
  let x = 0;
  const found = row.map((_, i) => {
    const at = x;
    x += sizes[i].width + spaces[i];
    return at;
  });
  return found.map(at => at - x / 2);
}

/** Left sides nearest to the mean targets, in order, with gaps (pool adjacent violators). */
function fitted(row, sizes, now, wishes) {
  const spaces = gaps(row);
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
