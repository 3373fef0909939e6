// What a reader can do: each changes the state, shows it, and says so to those who listen.

const actions = {
  select(vertex) {
    state.walk = null;
    openAround(graph, state, vertex.group);
    renderToolbar();
    select(`v${vertex.index}`);
  },
  selectGroup(group) {
    state.walk = null;
    if (group.parent !== null) openAround(graph, state, group.parent);
    renderToolbar();
    select(`g${group.index}`);
  },
  toggle(group) {
    const before = sceneBox(`g${group.index}`);
    if (state.open.has(group.index)) state.open.delete(group.index);
    else openGroup(graph, state, group.index);
    state.selected = `g${group.index}`;
    render();
    const after = sceneBox(state.selected);
    if (before && after) view.hold(before, after);
    if (after) view.bring(state.open.has(group.index) ? after : { ...after });
    announce(`${group.shownName} ${state.open.has(group.index) ? "unfolded" : "folded"}.`);
  },
  press(box) {
    if (box.kind !== "vertex") actions.toggle(graph.groups[box.index]);
    else if (state.walk) actions.goTo(stepOf(graph, state.walk, graph.vertices[box.index]));
    else select(box.id, { focus: true });
  },
  showMember(stack, member) {
    state.shown.set(stack.index, member);
    openGroup(graph, state, stack.index);
    render();
  },
  unfoldAll() {
    openAll(graph, state);
    render();
    view.fit();
    announce(`Everything is unfolded: ${view.scene.boxes.length} boxes.`);
  },
  foldAgain() {
    state.open = new Set(graph.open);
    state.shown = new Map(graph.shown);
    render();
    view.fit(true);
    announce("Folded as at first.");
  },
  colour(mode) {
    state.colour = mode;
    render();
    announce(`Coloured by ${graph.colours[mode]}.`);
  },
  /** Show where a vertex stands, and stay in the walk. */
  point(vertex) {
    openAround(graph, state, vertex.group);
    render();
    view.bring(sceneBox(`v${vertex.index}`));
  },
  startWalk() {
    state.walk = newWalk(graph);
    renderToolbar();
    actions.goTo(0);
  },
  endWalk() {
    const vertex = opAt(state.walk);
    state.walk = null;
    renderToolbar();
    if (vertex) actions.select(vertex);
    else render();
    document.getElementById("walk").focus();
  },
  goTo(step) {
    const walk = state.walk;
    walk.step = Math.min(walk.last, Math.max(0, step));
    const vertex = opAt(walk);
    for (const around of vertex ? [vertex.group] : []) openAround(graph, state, around);
    const onBox = Boolean(document.activeElement?.closest("#world"));
    render();
    for (const box of inView(vertex)) view.bring(box);
    const stop = roveBoxes(vertex && `v${vertex.index}`);
    if (onBox) stop?.focus({ preventScroll: true });
    announce(stepText(graph, walk));
  },
  toggleQuiz() {
    state.walk.quiz = !state.walk.quiz;
    render();
    announce(state.walk.quiz ? "Quiz on: results are hidden until you type them." : "Quiz off.");
  },
  chooseCell(edge, flat) {
    state.walk.cells.set(cellKey(edge), flat);
    renderPanel();
    document.getElementById(`cell-${edge.place}-${flat}`)?.focus();
    announce(document.querySelector(`[data-place="${edge.place}"] .cell`)?.textContent ?? "");
  },
  reveal(edge, said) {
    state.walk.known.add(cellKey(edge));
    render();
    const next = panel.querySelector(".question input") ?? document.getElementById("next-step");
    next?.focus();
    announce(said);
  },
};

/** What should be seen at a step: what the gradient goes to, and last, so that it wins, the op. */
function inView(vertex) {
  const vertices = vertex
    ? [...vertex.inputs.filter(edge => edge.gradient).map(edge => edge.source), vertex.index]
    : graph.vertices.filter(other => other.isOutput && state.walk.step === 0).map(other => other.index);
  return vertices.map(i => sceneBox(visibleBox(graph, state, i))).filter(box => box && box.kind !== "frame");
}
