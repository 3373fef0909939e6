// The page comes to life: what is selected, what is open, and what each key and button does.

const graph = readGraph(document.getElementById("data").textContent);
const state = {
  open: new Set(graph.open), shown: new Map(graph.shown), colour: graph.colour,
  selected: null, walk: null, found: [], foundAt: -1,
};
const panel = document.getElementById("panel");
const place = document.getElementById("graph");
const index = searchIndex(graph);
const view = new View(place);

// ---------------------------------------------------------------- showing

/** Everything anew, so far as it changed; what had the keyboard's focus has it again. */
function render() {
  const focus = document.activeElement?.id;
  view.scene = sceneNow();
  const key = `${view.key} ${state.found} ${state.walk && [state.walk.step, state.walk.quiz, ...state.walk.known]}`;
  if (key !== view.drawn) renderDrawing();
  view.drawn = key;
  for (const old of document.querySelectorAll("#world .selected")) old.classList.remove("selected");
  if (state.selected && !state.walk) document.getElementById(state.selected)?.classList.add("selected");
  renderPanel();
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}

function renderDrawing() {
  const old = document.getElementById("drawing");
  const drawing = h("div", { id: "drawing" }, draw(graph, view.scene, state, decorate, actions), drawLegend(graph, view.scene, state.colour));
  if (old) old.replaceWith(drawing);
  else place.replaceChildren(drawing);
  roveBoxes();
  view.apply();
}

/** The layout, made anew only where something else is open, or boxes have other lines. */
function sceneNow() {
  const key = JSON.stringify([[...state.open], [...state.shown], state.colour]);
  if (view.key !== key) [view.key, view.scene] = [key, layOut(graph, state)];
  return view.scene;
}

function renderPanel() {
  const key = panelKey();
  const content = panelContent().flat(Infinity).filter(Boolean);
  const top = key === panel.dataset.key ? panel.scrollTop : 0;
  panel.replaceChildren(...content);
  reachScrollable(panel);
  panel.dataset.key = key;
  panel.scrollTop = top;
}

function panelKey() {
  return state.walk ? `step ${state.walk.step}` : String(state.selected);
}

function panelContent() {
  if (state.walk) return stepPanel(graph, state.walk, actions);
  if (!state.selected) return overviewPanel(graph, actions);
  const i = Number(state.selected.slice(1));
  return state.selected[0] === "v" ? vertexPanel(graph, graph.vertices[i], actions) : groupPanel(graph, graph.groups[i], state, actions);
}

/** How a search and the walk change a box. */
function decorate(box) {
  const classes = [];
  if (foundBoxes().has(box.id)) classes.push("found");
  const lines = box.kind === "frame" ? null : linesOf(graph, box.id, state.colour);
  if (!state.walk) return { lines, classes };
  return decorateWalk(graph, state.walk, box, lines, classes, receivingBoxes());
}

/** The boxes to which the step of the walk sends something. */
function receivingBoxes() {
  const key = `${view.key} ${state.walk.step}`;
  if (receivingBoxes.key !== key) {
    receivingBoxes.key = key;
    const edges = (opAt(state.walk)?.inputs ?? []).filter(edge => edge.gradient);
    receivingBoxes.ids = new Set(edges.map(edge => visibleBox(graph, state, edge.source)));
  }
  return receivingBoxes.ids;
}

/** The boxes in which a search found something. */
function foundBoxes() {
  const key = `${view.key} ${state.found}`;
  if (foundBoxes.key !== key) {
    foundBoxes.key = key;
    foundBoxes.ids = new Set(state.found.map(i => visibleBox(graph, state, i)));
  }
  return foundBoxes.ids;
}

/** One box is a stop of Tab: the selected one, or the first. */
function roveBoxes(id = state.selected) {
  for (const button of document.querySelectorAll("#world [tabindex='0']")) button.tabIndex = -1;
  const stop = (id && document.getElementById(id)) ?? document.querySelector("#world .boxes [role=button]");
  if (stop) stop.tabIndex = 0;
  return stop;
}

function sceneBox(id) {
  return [...view.scene.boxes, ...view.scene.frames].find(box => box.id === id);
}

/** Select a box, open what is around it, and bring it into view. */
function select(id, { focus = false } = {}) {
  state.selected = id;
  render();
  const box = sceneBox(id);
  if (!box) return;
  view.bring(box.kind === "frame" ? { ...box, height: HEADER } : box);
  const stop = roveBoxes(id);
  if (focus) stop.focus({ preventScroll: true });
  else announce(stop.getAttribute("aria-label"));
}

// ---------------------------------------------------------------- what a reader can do

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
  const vertices = vertex ? [...vertex.inputs.filter(edge => edge.gradient).map(edge => edge.source), vertex.index]
    : graph.vertices.filter(other => other.isOutput && state.walk.step === 0).map(other => other.index);
  return vertices.map(i => sceneBox(visibleBox(graph, state, i))).filter(box => box && box.kind !== "frame");
}

// ---------------------------------------------------------------- tools

function renderToolbar() {
  const toolbar = document.getElementById("toolbar");
  toolbar.hidden = false;
  if (!toolbar.childElementCount) toolbar.append(...tools());
  document.getElementById("walk")?.setAttribute("aria-pressed", String(Boolean(state.walk)));
}

function tools() {
  const button = (text, label, onclick) => h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
  const colour = h("select", { id: "colour", onchange: event => actions.colour(event.target.value) },
    Object.entries(graph.colours).map(([mode, means]) => h("option", { value: mode }, means.split(" (")[0])));
  colour.value = state.colour;
  const canWalk = walkBack(graph).length > 0;
  return [
    h("form", { role: "search", onsubmit: event => { event.preventDefault(); findNext(1); } },
      h("label", { class: "unseen", for: "search" }, "Search names, operations and source lines"),
      h("input", { id: "search", type: "search", placeholder: "Search  /", autocomplete: "off", oninput: onSearch, onkeydown: onSearchKey }),
      h("span", { id: "matches", role: "status" })),
    h("label", { for: "colour" }, "Colour ", colour),
    h("span", { class: "together" }, button("−", "Zoom out", () => view.zoom(1 / 1.25)), button("Fit", "Show all of it", () => view.fit(true, true)),
      button("+", "Zoom in", () => view.zoom(1.25))),
    graph.groups.length > 1 && h("span", { class: "together" }, button("Unfold all", "Unfold everything", actions.unfoldAll),
      button("Fold", "Fold as at first", actions.foldAgain)),
    canWalk && h("button", { type: "button", id: "walk", class: "primary", "aria-pressed": "false",
      onclick: () => (state.walk ? actions.endWalk() : actions.startWalk()) }, "Walk backward"),
  ].filter(Boolean);
}

// ---------------------------------------------------------------- search

function onSearch(event) {
  state.found = findAll(index, event.target.value);
  state.foundAt = -1;
  showMatches();
  render();
}

function onSearchKey(event) {
  if (event.key === "Enter" && event.shiftKey) {
    event.preventDefault();
    findNext(-1);
  } else if (event.key === "Escape") {
    event.preventDefault();
    event.stopPropagation();
    event.target.value = "";
    onSearch(event);
    roveBoxes()?.focus();
  }
}

function findNext(by) {
  const n = state.found.length;
  if (!n) return showMatches();
  state.foundAt = state.foundAt < 0 ? (by > 0 ? 0 : n - 1) : (state.foundAt + by + n) % n;
  actions.select(graph.vertices[state.found[state.foundAt]]);
  showMatches();
}

function showMatches() {
  const n = state.found.length;
  const typed = document.getElementById("search").value.trim();
  const text = state.foundAt < 0 ? count(n, "match", "matches") : `${state.foundAt + 1} of ${n}`;
  document.getElementById("matches").textContent = typed ? text : "";
}

// ---------------------------------------------------------------- keys

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const direction = DIRECTIONS[event.key];
  const inPanel = panel.contains(event.target);
  const done = direction ? onArrow(event, direction, inPanel) : onLetter(event, inPanel);
  if (done) event.preventDefault();
}

function onArrow(event, direction, inPanel) {
  if (event.shiftKey) {
    view.move(-direction[0] * STEP, -direction[1] * STEP);
    return true;
  }
  if (state.walk) {
    if (inPanel && direction[1]) return false; // up and down scroll what is read
    actions.goTo(state.walk.step + direction[0] + direction[1]);
    return true;
  }
  const box = sceneBox(event.target.id);
  if (!box) return false;
  const next = nextBox([...view.scene.boxes, ...view.scene.frames], box, direction);
  if (next) select(next.id, { focus: true });
  return true;
}

function onLetter(event, inPanel) {
  const keys = {
    "/": () => document.getElementById("search").focus(),
    b: () => walkBack(graph).length && (state.walk ? actions.endWalk() : actions.startWalk()),
    q: () => state.walk && actions.toggleQuiz(),
    "+": () => view.zoom(1.25), "=": () => view.zoom(1.25), "-": () => view.zoom(1 / 1.25), 0: () => view.fit(true, true),
    Escape: () => onEscape(inPanel),
  };
  if (state.walk) Object.assign(keys, { Home: () => actions.goTo(0), End: () => actions.goTo(state.walk.last) });
  const box = event.target.closest?.("#world [role=button]");
  if (box) for (const key of ["Enter", " "]) keys[key] = () => onEnter(box.id);
  if (!keys[event.key]) return false;
  keys[event.key]();
  return true;
}

/** On a part: fold or unfold; on anything else: go and read about it. */
function onEnter(id) {
  const box = sceneBox(id);
  actions.press(box);
  if (box.kind === "vertex") panel.querySelector("h2")?.focus();
}

function onEscape(inPanel) {
  if (inPanel && !state.walk) roveBoxes()?.focus();
  else if (state.walk) actions.endWalk();
  else {
    state.selected = null;
    render();
  }
}

document.addEventListener("keydown", onKey);
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));
renderToolbar();
render();
view.fit();
