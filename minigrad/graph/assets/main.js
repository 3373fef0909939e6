// The page comes to life: what is selected, what is open, and what each key does.

const graph = readGraph(document.getElementById("data").textContent);
const state = { ...startState(graph), selected: null, colour: "family", walk: null };
const panel = document.getElementById("panel");

function show(...content) {
  panel.replaceChildren(...content.flat(Infinity).filter(Boolean));
}
const actions = {
  select(vertex) { state.selected = `v${vertex.index}`; for (const group of chainOf(graph, vertex.group)) state.open.add(group.index); render(); },
  selectGroup(group) { state.selected = `g${group.index}`; render(); },
  toggle(group) { if (!state.open.delete(group.index)) state.open.add(group.index); render(); },
  press(box) { if (box.kind === "vertex") actions.select(graph.vertices[box.index]); else { state.selected = box.id; actions.toggle(graph.groups[box.index]); } },
  startWalk() { state.walk = newWalk(graph); render(); },
  endWalk() { state.walk = null; render(); },
  goTo(step) { state.walk.step = step; render(); },
  toggleQuiz() { state.walk.quiz = !state.walk.quiz; render(); },
  chooseCell(edge, flat) { state.walk.cells.set(cellKey(edge), flat); render(); },
  reveal(edge) { state.walk.known.add(cellKey(edge)); render(); },
  point(vertex) {},
  showMember() {},
};
function render() {
  const scene = layOut(graph, state);
  document.getElementById("graph").replaceChildren(draw(graph, scene, state, actions));
  if (state.walk) show(stepPanel(graph, state.walk, actions));
  else if (!state.selected) show(overviewPanel(graph, actions));
  else if (state.selected[0] === "v") show(vertexPanel(graph, graph.vertices[Number(state.selected.slice(1))], actions));
  else show(groupPanel(graph, graph.groups[Number(state.selected.slice(1))], state, actions));
}
render();
