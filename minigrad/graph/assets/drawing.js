// The drawing: SVG made of a layout. Boxes are buttons in the order of the computation.

function draw(graph, scene, state, actions) {
  const svg = s("svg", { id: "canvas", role: "group", "aria-label": "Boxes of the graph", viewBox: `0 0 ${scene.width} ${scene.height}` });
  const world = s("g", { id: "world" });
  world.append(s("g", { class: "lines", "aria-hidden": "true" }, scene.lines.map(line => drawLine(scene, line))));
  world.append(s("g", { class: "boxes" }, scene.boxes.map(box => drawBox(graph, box, state, actions))));
  svg.append(world);
  return svg;
}
function drawLine(scene, line) {
  const a = scene.boxes.find(box => box.id === line.from), b = scene.boxes.find(box => box.id === line.to);
  return s("path", { class: "line", d: `M${a.x + a.width / 2} ${a.y + a.height}L${b.x + b.width / 2} ${b.y}` });
}
function boxTitle(graph, box) {
  if (box.kind === "vertex") return nameOf(graph.vertices[box.index]);
  const group = graph.groups[box.index];
  return group.isStack ? `${group.kind} ×${group.times}` : group.name;
}
function drawBox(graph, box, state, actions) {
  const chosen = state.selected === box.id;
  return s("g", { class: `box ${box.kind}`, id: box.id, role: "button", tabindex: -1, "aria-label": boxTitle(graph, box),
    "aria-pressed": String(chosen), "aria-expanded": box.kind === "group" ? String(state.open.has(box.index)) : null,
    onclick: () => actions.press(box) },
    s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 8 }),
    s("text", { x: box.x + box.width / 2, y: box.y + box.height / 2 }, boxTitle(graph, box)));
}
