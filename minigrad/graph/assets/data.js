// The traced computation, as Python wrote it down (page.py): rows become objects with names, numbers become
// what they mean.

const VERTEX = [
  "kind",
  "name",
  "title",
  "group",
  "values",
  "gradients",
  "inputs",
  "settings",
  "family",
  "formulas",
  "flops",
  "retained",
  "source",
  "code",
  "checks",
  "label",
  "isOutput",
  "seeds",
];
const EDGE = ["source", "result", "operand", "needs", "summed", "expanded", "pulled", "gradient", "jacobian"];
const GROUP = ["parent", "name", "path", "kind", "shownName", "shownKind", "vertices", "groups", "times"];
const SNAPSHOT = ["shape", "dtype", "bytes", "statistics", "extent", "numbers", "whole"];
const PAINT = ["fill", "stroke", "mark", "meaning"];
const COLOURS = ["family", "gradient", "bytes", "flops"];
const STATISTICS = ["min", "mean", "max", "std", "norm", "nan", "inf"];

function readGraph(text) {
  const data = JSON.parse(text);
  const arrays = data.arrays.map(array => array && array.map(toNumber));
  const string = i => data.strings[i];
  const snapshots = data.snapshots.map(row => readSnapshot(row, string, arrays));
  const snapshot = i => (i === null ? null : snapshots[i]);
  const graph = { ...data, title: data.title || "Computation graph" };
  graph.vertices = data.vertices.map((row, index) =>
    readVertex(row, index, string, snapshot, data.formulas, arrays),
  );
  graph.groups = data.groups.map((row, index) => readGroup(row, index, string));
  graph.uses = readUses(graph.vertices);
  graph.arrangements = data.arrangements.map(readArrangement);
  graph.looks = new Map(
    Object.entries(data.looks).flatMap(([letter, rows]) =>
      rows.map((row, i) => [`${letter}${i}`, readLook(row, string)]),
    ),
  );
  graph.paints = data.paints.map(row => named(PAINT, row));
  graph.contents = [];
  return graph;
}

function named(names, row) {
  return Object.fromEntries(names.map((name, i) => [name, row[i]]));
}

function readSnapshot(row, string, arrays) {
  const snapshot = named(SNAPSHOT, row);
  snapshot.dtype = string(snapshot.dtype);
  snapshot.statistics = snapshot.statistics && named(STATISTICS, snapshot.statistics.map(toNumber));
  snapshot.numbers = inDtype(arrays[snapshot.numbers], snapshot.dtype);
  snapshot.whole = Boolean(snapshot.whole && snapshot.numbers);
  snapshot.size = snapshot.shape.reduce((a, b) => a * b, 1);
  snapshot.finite = !snapshot.statistics || !(snapshot.statistics.nan || snapshot.statistics.inf);
  return snapshot;
}

/** Few digits say which float32 a number is: that one is meant, not the number in those digits. */
function inDtype(numbers, dtype) {
  return numbers && dtype === "float32" ? numbers.map(Math.fround) : numbers;
}

function readVertex(row, index, string, snapshot, formulas, arrays) {
  const vertex = { index, ...named(VERTEX, row) };
  for (const key of ["name", "title", "family", "source", "code", "label"]) vertex[key] = string(vertex[key]);
  vertex.values = vertex.values.map(snapshot);
  vertex.gradients = vertex.gradients.map(snapshot);
  vertex.seeds = vertex.seeds.map(snapshot);
  vertex.inputs = vertex.inputs.map((edge, place) => readEdge(edge, index, place, string, snapshot, arrays));
  vertex.settings = vertex.settings.map(([name, value]) => [string(name), string(value)]);
  vertex.letters = new Map(vertex.formulas.map(([operand, , said]) => [string(operand), string(said)]));
  vertex.formulas = new Map(vertex.formulas.map(([operand, i]) => [string(operand), formulas[i]]));
  vertex.retained = vertex.retained.map(([bytes, memory, owner]) => ({ bytes, memory, owner }));
  vertex.checks = vertex.checks.map(([at, verdict, ...numbers]) => {
    const [analytic, numeric, error = 0, low = 0, high = 0] = numbers.map(toNumber);
    return { at, verdict: string(verdict), analytic, numeric, error, low, high };
  });
  vertex.isOutput = Boolean(vertex.isOutput);
  vertex.value = vertex.values[0];
  vertex.gradient = vertex.gradients.find(Boolean) ?? null;
  return vertex;
}

function readEdge(row, target, place, string, snapshot, arrays) {
  const edge = { target, place, ...named(EDGE, row) };
  edge.operand = string(edge.operand);
  edge.pulled = snapshot(edge.pulled);
  edge.gradient = snapshot(edge.gradient);
  edge.isLeftOut = Boolean(edge.jacobian) && !arrays[edge.jacobian[3]];
  edge.jacobian = edge.jacobian && readJacobian(edge.jacobian, arrays, edge.pulled?.dtype);
  return edge;
}

function readJacobian([rows, columns, diagonal, array], arrays, dtype) {
  const numbers = inDtype(arrays[array], dtype);
  return numbers && { rows, columns, diagonal: Boolean(diagonal), numbers };
}

/** d result[i] / d input[j]. */
function entry(jacobian, i, j) {
  if (jacobian.diagonal) return i === j ? jacobian.numbers[i] : 0;
  return jacobian.numbers[i * jacobian.columns + j];
}

function readGroup(row, index, string) {
  const group = { index, ...named(GROUP, row) };
  for (const key of ["name", "path", "kind", "shownName", "shownKind"]) group[key] = string(group[key]);
  group.isStack = group.times > 1;
  return group;
}

/** Rows of cells, and the links from each row to the next (arrangement.py). */
function readArrangement([rows, links, inlets]) {
  const link = ([above, below, vertex, result, place]) => ({ above, below, vertex, result, place });
  return {
    rows: rows.map(row => row.map(readCell)),
    links: links.map(row => chunks(row, 5).map(link)),
    inlets: inlets.map(([v, r]) => laneId(v, r)),
  };
}

/** A number is a vertex, a negative one a group, a pair a lane: the way of a vertex's result through a row. */
function readCell(cell) {
  if (Array.isArray(cell)) return { kind: "lane", id: laneId(...cell), index: cell[0], result: cell[1] };
  return cell < 0
    ? { kind: "group", id: `g${-cell - 1}`, index: -cell - 1 }
    : { kind: "vertex", id: `v${cell}`, index: cell };
}

function chunks(list, size) {
  return Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size));
}

/** What stands on a box, and for each way of colouring what is added to that, and how the box is painted. */
function readLook([lines, extras, paints], string) {
  const [gradient, bytes, flops] = extras.map(string);
  return {
    lines: lines.map(string),
    extras: { family: "", gradient, bytes, flops },
    paints: named(COLOURS, paints),
  };
}

/** What stands on a closed box, its title first. */
function linesOf(graph, id, mode) {
  const { lines, extras } = graph.looks.get(id);
  return extras[mode] ? [...lines, extras[mode]] : lines;
}

function paintOf(graph, id, mode) {
  return graph.paints[graph.looks.get(id).paints[mode]];
}

/** For each vertex the edges that lead away from it, in order. */
function readUses(vertices) {
  const uses = vertices.map(() => []);
  for (const vertex of vertices) for (const edge of vertex.inputs) uses[edge.source].push(edge);
  return uses;
}

/** `float32[2, 3]`. */
function kindOf(snapshot) {
  return snapshot.shape.length ? `${snapshot.dtype}[${snapshot.shape.join(", ")}]` : snapshot.dtype;
}

/** `(2, 3)`, `(3,)`. */
function shapeText(shape) {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** What a vertex is called in a sentence. */
function nameOf(vertex) {
  if (vertex.label) return vertex.label;
  return vertex.kind === "op" ? vertex.title : vertex.name || vertex.title;
}

/** The groups around a group, the whole first, it last. */
function chainOf(graph, group) {
  const chain = [];
  for (let i = group; i !== null; i = graph.groups[i].parent) chain.unshift(graph.groups[i]);
  return chain;
}

/** All vertices in a group, at any depth, in order. */
function contentsOf(graph, group) {
  const { vertices, groups } = graph.groups[group];
  graph.contents[group] ??= [...vertices, ...groups.flatMap(child => contentsOf(graph, child))].sort(
    (a, b) => a - b,
  );
  return graph.contents[group];
}
