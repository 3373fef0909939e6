// The traced computation, as Python wrote it (page.py): rows become objects by the names of their columns,
// numbers become what they refer to.

import { toNumber } from "./numbers.js";

export function readGraph(text) {
  const data = JSON.parse(text);
  const read = reader(data);
  const graph = { ...data, title: data.title || "Computation graph", contents: [] };
  graph.vertices = data.vertices.map(read.vertex);
  graph.groups = data.groups.map(read.group);
  graph.uses = readUses(graph.vertices);
  graph.arrangements = data.arrangements.map(read.arrangement);
  graph.looks = new Map(
    Object.entries(data.looks).flatMap(([letter, rows]) =>
      rows.map((row, i) => [`${letter}${i}`, read.look(row)]),
    ),
  );
  graph.paints = data.paints.map(row => named(data.columns.paint, row));
  return graph;
}

function named(names, row) {
  return Object.fromEntries(names.map((name, i) => [name, row[i]]));
}

/** A float32 is written in the fewest digits that identify it; recover its exact value. */
function inDtype(numbers, dtype) {
  return numbers && dtype === "float32" ? numbers.map(Math.fround) : numbers;
}

/** Functions that read the rows of the data, one for each kind. */
function reader(data) {
  const { columns, strings } = data;
  const modes = Object.keys(data.colours);
  const arrays = data.arrays.map(array => array && array.map(toNumber));
  const string = i => strings[i];

  const snapshots = data.snapshots.map(row => {
    const found = named(columns.snapshot, row);
    found.dtype = string(found.dtype);
    found.statistics = found.statistics && named(columns.statistics, found.statistics.map(toNumber));
    found.numbers = inDtype(arrays[found.numbers], found.dtype);
    found.whole = Boolean(found.whole && found.numbers);
    found.size = found.shape.reduce((a, b) => a * b, 1);
    found.finite = !found.statistics || !(found.statistics.nan || found.statistics.inf);
    return found;
  });
  const snapshot = i => (i === null ? null : snapshots[i]);

  function vertex(row, index) {
    const found = { index, ...named(columns.vertex, row) };
    for (const key of ["name", "title", "family", "parts", "source", "code", "label"])
      found[key] = string(found[key]);
    found.heat = found.heat.map(heat => (heat === null ? null : string(heat).split("/")));
    for (const key of ["values", "gradients", "seeds"]) found[key] = found[key].map(snapshot);
    found.inputs = found.inputs.map((input, place) => edge(input, index, place));
    found.settings = found.settings.map(([name, value]) => [string(name), string(value)]);
    const formulas = found.formulas.map(each => named(columns.formula, each));
    found.letters = new Map(formulas.map(each => [string(each.operand), string(each.letters)]));
    found.formulas = new Map(formulas.map(each => [string(each.operand), data.formulas[each.equation]]));
    found.retained = found.retained.map(each => named(columns.retained, each));
    found.checks = found.checks.map(check);
    found.isOutput = Boolean(found.isOutput);
    found.value = found.values[0];
    found.gradient = found.gradients.find(Boolean) ?? null;
    return found;
  }

  function check(row) {
    const found = named(columns.check, row);
    for (const key of ["analytic", "numeric", "error", "low", "high"]) found[key] = toNumber(found[key]);
    return { ...found, verdict: string(found.verdict) };
  }

  function edge(row, target, place) {
    const found = { target, place, ...named(columns.edge, row) };
    found.operand = string(found.operand);
    found.pulled = snapshot(found.pulled);
    found.gradient = snapshot(found.gradient);
    const jacobian = found.jacobian && named(columns.jacobian, found.jacobian);
    const numbers = jacobian && inDtype(arrays[jacobian.numbers], found.pulled?.dtype);
    found.isLeftOut = Boolean(jacobian) && !numbers;
    found.jacobian = numbers && { ...jacobian, numbers };
    return found;
  }

  function group(row, index) {
    const found = { index, ...named(columns.group, row) };
    for (const key of ["name", "path", "kind", "shownName", "shownKind"]) found[key] = string(found[key]);
    found.formulas = found.formulas.map(i => data.formulas[i]);
    found.isStack = found.times > 1;
    return found;
  }

  /** Rows of cells, and the links from each row to the next (arrangement.py). */
  function arrangement(row) {
    const { rows, links, sides, inlets } = named(columns.arrangement, row);
    return {
      rows: rows.map(cells => cells.map(readCell)),
      links: links.map(flat => chunks(flat, columns.link?.length).map(link => named(columns.link, link))),
      sides: sides.map(([at, left, right, vertex, result]) => ({
        row: at,
        left,
        right,
        vertex,
        result,
        place: -1,
      })),
      inlets: inlets.map(([v, r]) => laneId(v, r)),
    };
  }

  /** The lines on a box, and for each colour mode an extra line and the paint. */
  function look(row) {
    const { lines, extras, paints } = named(columns.look, row);
    return {
      lines: lines.map(string),
      extras: named(modes, extras.map(string)),
      paints: named(modes, paints),
    };
  }

  return { vertex, group, arrangement, look };
}

/** d result[i] / d input[j]. */
export function entry(jacobian, i, j) {
  if (jacobian.diagonal) return i === j ? jacobian.numbers[i] : 0;
  return jacobian.numbers[i * jacobian.columns + j];
}

/** A number is a vertex, a negative number a group, a pair a lane: the path of a vertex's result through a row. */
function readCell(cell) {
  if (Array.isArray(cell)) return { kind: "lane", id: laneId(...cell), index: cell[0], result: cell[1] };
  return cell < 0
    ? { kind: "group", id: `g${-cell - 1}`, index: -cell - 1 }
    : { kind: "vertex", id: `v${cell}`, index: cell };
}

function chunks(list, size) {
  return Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size));
}

/** The lines on a closed box, its title first. */
export function linesOf(graph, id, mode) {
  const { lines, extras } = graph.looks.get(id);
  return extras[mode] ? [...lines, extras[mode]] : lines;
}

export function paintOf(graph, id, mode) {
  return graph.paints[graph.looks.get(id).paints[mode]];
}

/** The vertex of which a closed box shows heat maps, of value and gradient: its own or, of a group, its last op. */
export function shownVertex(graph, id) {
  const index = Number(id.slice(1));
  if (id[0] === "v") return graph.vertices[index];
  const inside = contentsOf(graph, index).map(i => graph.vertices[i]);
  return inside.findLast(vertex => vertex.kind === "op") ?? inside.at(-1);
}

/** For each vertex the edges that lead away from it, in order. */
function readUses(vertices) {
  const uses = vertices.map(() => []);
  for (const vertex of vertices) for (const edge of vertex.inputs) uses[edge.source].push(edge);
  return uses;
}

/** `float32[2, 3]`. */
export function kindOf(snapshot) {
  return snapshot.shape.length ? `${snapshot.dtype}[${snapshot.shape.join(", ")}]` : snapshot.dtype;
}

/** `(2, 3)`, `(3,)`. */
export function shapeText(shape) {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** The name of a vertex in a sentence. */
export function nameOf(vertex) {
  if (vertex.label) return vertex.label;
  return vertex.kind === "op" ? vertex.title : vertex.name || vertex.title;
}

/** The groups around a group, from the root to the group itself. */
export function chainOf(graph, group) {
  const chain = [];
  for (let i = group; i !== null; i = graph.groups[i].parent) chain.unshift(graph.groups[i]);
  return chain;
}

/** All vertices in a group, at any depth, in order. */
export function contentsOf(graph, group) {
  const { vertices, groups } = graph.groups[group];
  graph.contents[group] ??= [...vertices, ...groups.flatMap(child => contentsOf(graph, child))].sort(
    (a, b) => a - b,
  );
  return graph.contents[group];
}

export const laneId = (vertex, result) => `l${vertex}.${result}`;
