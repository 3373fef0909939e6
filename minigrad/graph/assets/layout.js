// Which boxes are to be seen, and where they stand.

const BOX = { height: 44, gap: 26, row: 40, padding: 14 };

/** What is open at first: as many groups as leave few boxes. */
function startState(graph) {
  return { open: new Set([0]), members: new Map() };
}

/** The box in which a vertex is seen: itself, or the outermost folded group around it. */
function boxOf(graph, state, vertex) {
  for (const group of chainOf(graph, graph.vertices[vertex].group)) if (!state.open.has(group.index)) return `g${group.index}`;
  return `v${vertex}`;
}

/** Boxes by place, and lines between them: what the drawing is made of. */
function layOut(graph, state) {
  const boxes = new Map();
  for (const vertex of graph.vertices) {
    const id = boxOf(graph, state, vertex.index);
    if (!boxes.has(id)) boxes.set(id, { id, kind: id[0] === "g" ? "group" : "vertex", index: Number(id.slice(1)), vertices: [] });
    boxes.get(id).vertices.push(vertex.index);
  }
  const lines = new Map();
  for (const vertex of graph.vertices) for (const edge of vertex.inputs) {
    const [from, to] = [boxOf(graph, state, edge.source), boxOf(graph, state, vertex.index)];
    const key = `${from}>${to}>${from[0] === "v" && to[0] === "v" ? edge.place : ""}`;
    if (from !== to && !lines.has(key)) lines.set(key, { from, to, edges: [edge] });
    else if (from !== to) lines.get(key).edges.push(edge);
  }
  const rank = new Map([...boxes.keys()].map(id => [id, 0]));
  for (let changed = true; changed;) {
    changed = false;
    for (const { from, to } of lines.values()) if (rank.get(to) <= rank.get(from)) { rank.set(to, rank.get(from) + 1); changed = true; }
  }
  const rows = [];
  for (const [id, r] of rank) (rows[r] ??= []).push(boxes.get(id));
  let width = 0;
  rows.forEach((row, r) => {
    let x = 0;
    for (const box of row) { Object.assign(box, { x, y: r * (BOX.height + BOX.row), width: 150, height: BOX.height }); x += 150 + BOX.gap; }
    width = Math.max(width, x);
  });
  for (const row of rows) { const shift = (width - row.length * (150 + BOX.gap)) / 2; for (const box of row) box.x += shift; }
  return { boxes: [...boxes.values()], frames: [], lines: [...lines.values()], width, height: rows.length * (BOX.height + BOX.row) };
}
