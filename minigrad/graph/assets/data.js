// The traced computation, as Python wrote it down (page.py): rows become objects with names, numbers become what they mean.

const VERTEX = ["kind", "name", "title", "group", "values", "gradients", "inputs", "settings", "family", "formulas", "flops",
  "retained", "source", "code", "checks", "label", "isOutput"];
const EDGE = ["source", "result", "operand", "needs", "summed", "expanded", "pulled", "gradient", "jacobian"];
const GROUP = ["parent", "name", "path", "kind", "vertices", "groups", "times"];
const SNAPSHOT = ["shape", "dtype", "bytes", "statistics", "extent", "numbers", "whole"];
const STATISTICS = ["min", "mean", "max", "std", "norm", "nan", "inf"];

function readGraph(text) {
  const data = JSON.parse(text);
  const arrays = data.arrays.map(array => array && array.map(toNumber));
  const string = i => data.strings[i];
  const snapshots = data.snapshots.map(row => readSnapshot(row, string, arrays));
  const snapshot = i => (i === null ? null : snapshots[i]);
  const graph = { ...data, title: data.title || "Computation graph" };
  graph.vertices = data.vertices.map((row, index) => readVertex(row, index, string, snapshot, data.formulas, arrays));
  graph.groups = data.groups.map((row, index) => readGroup(row, index, string));
  graph.uses = readUses(graph.vertices);
  return graph;
}

function named(names, row) {
  return Object.fromEntries(names.map((name, i) => [name, row[i]]));
}

function readSnapshot(row, string, arrays) {
  const snapshot = named(SNAPSHOT, row);
  snapshot.dtype = string(snapshot.dtype);
  snapshot.statistics = snapshot.statistics && named(STATISTICS, snapshot.statistics.map(toNumber));
  snapshot.numbers = arrays[snapshot.numbers];
  snapshot.whole = Boolean(snapshot.whole && snapshot.numbers);
  snapshot.size = snapshot.shape.reduce((a, b) => a * b, 1);
  snapshot.finite = !snapshot.statistics || !(snapshot.statistics.nan || snapshot.statistics.inf);
  return snapshot;
}

function readVertex(row, index, string, snapshot, formulas, arrays) {
  const vertex = { index, ...named(VERTEX, row) };
  for (const key of ["name", "title", "family", "source", "code", "label"]) vertex[key] = string(vertex[key]);
  vertex.values = vertex.values.map(snapshot);
  vertex.gradients = vertex.gradients.map(snapshot);
  vertex.inputs = vertex.inputs.map((edge, place) => readEdge(edge, index, place, string, snapshot, arrays));
  vertex.settings = vertex.settings.map(([name, value]) => [string(name), string(value)]);
  vertex.formulas = new Map(vertex.formulas.map(([operand, i]) => [string(operand), formulas[i]]));
  vertex.retained = vertex.retained.map(([bytes, memory, owner]) => ({ bytes, memory, owner }));
  vertex.checks = vertex.checks.map(([at, analytic, numeric]) => (
    { at, analytic: toNumber(analytic), numeric: toNumber(numeric) }));
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
  edge.jacobian = edge.jacobian && readJacobian(edge.jacobian, arrays);
  return edge;
}

function readJacobian([rows, columns, diagonal, array], arrays) {
  const numbers = arrays[array];
  return numbers && { rows, columns, diagonal: Boolean(diagonal), numbers };
}

/** d result[i] / d input[j]. */
function entry(jacobian, i, j) {
  if (jacobian.diagonal) return i === j ? jacobian.numbers[i] : 0;
  return jacobian.numbers[i * jacobian.columns + j];
}

function readGroup(row, index, string) {
  const group = { index, ...named(GROUP, row) };
  for (const key of ["name", "path", "kind"]) group[key] = string(group[key]);
  group.isStack = group.times > 1;
  return group;
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

/** All vertices in a group, at any depth. */
function verticesIn(graph, group) {
  const found = [...group.vertices];
  for (const child of group.groups) found.push(...verticesIn(graph, graph.groups[child]));
  return found;
}
