// What a user can do: each action changes the state, renders it, and tells screen readers.

import { announce, h, s } from "./dom.js";
import { openAll, openAround, openGroup, visibleBox } from "./folding.js";
import { writeAddress } from "./main.js";
import { newWalk, opAt, stepOf, stepText, stepWithQuestion } from "./progress.js";
import {
  foldAsAtStart,
  graph,
  headOf,
  isDark,
  panel,
  render,
  renderPanel,
  roveBoxes,
  sceneBox,
  select,
  state,
  view,
} from "./showing.js";
import { renderToolbar, showTheme } from "./tools.js";
import { READABLE } from "./view.js";
import { cellKey } from "./walk.js";

const SAVED =
  "fill stroke stroke-width stroke-dasharray stroke-opacity opacity paint-order font-family font-size font-weight".split(
    " ",
  ); // of an element's style

export const actions = {
  select(vertex) {
    state.walk = null;
    writeAddress();
    openAround(graph, state, vertex.group);
    renderToolbar();
    select(`v${vertex.index}`);
  },
  selectGroup(group) {
    state.walk = null;
    writeAddress();
    if (group.parent !== null) openAround(graph, state, group.parent);
    renderToolbar();
    select(`g${group.index}`);
  },
  toggle(group) {
    if (state.open.has(group.index)) state.open.delete(group.index);
    else openGroup(graph, state, group.index);
    state.selected = `g${group.index}`;
    keepOpen();
    holding(state.selected, render);
    const box = sceneBox(state.selected);
    if (box) view.bring(box);
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
    keepOpen();
    holding(`g${stack.index}`, render);
  },
  unfoldAll() {
    const middle = view.middleBox();
    openAll(graph, state);
    keepOpen();
    holding(middle?.id, render);
    if (view.scene.width < view.size.width / READABLE) view.fit();
    else if (middle) view.bring(headOf(sceneBox(middle.id)));
    announce(`Everything is unfolded: ${view.scene.boxes.length} boxes.`);
  },
  fit() {
    view.fit(true);
    announce("The whole graph is shown.");
  },
  toggleLegend() {
    state.legend = !state.legend;
    document.getElementById("drawing").classList.toggle("with-legend", state.legend);
    document.getElementById("legend-button").setAttribute("aria-expanded", String(state.legend));
  },
  foldAgain() {
    foldAsAtStart();
    keepOpen();
    render();
    view.fit(true);
    announce("Folded as at the start.");
  },
  colour(mode) {
    const { isFitted } = view;
    state.colour = mode;
    render();
    if (isFitted) view.fit(); // boxes have other sizes
    announce(`Coloured by ${graph.colours[mode]}.`);
  },
  /** Show a vertex's position, and stay in the walk. */
  point(vertex) {
    openAround(graph, state, vertex.group);
    render();
    view.bring(sceneBox(`v${vertex.index}`));
  },
  startWalk() {
    state.walk = newWalk(graph, state);
    renderToolbar();
    actions.goTo(0);
  },
  endWalk() {
    const vertex = opAt(state.walk);
    state.walk = null;
    writeAddress();
    renderToolbar();
    if (vertex) actions.select(vertex);
    else render();
    document.getElementById("walk").focus();
  },
  /** Go to a step, and open what is around its op; what another step opened is folded again. */
  goTo(step) {
    const { walk } = state;
    const last = opAt(walk);
    const onBox = Boolean(document.activeElement?.closest("#world"));
    const canAnswer = document.activeElement?.matches("body, #world *, .question input, #next-step");
    walk.step = Math.min(walk.last, Math.max(0, step));
    const vertex = opAt(walk);
    state.open = new Set(walk.start.open);
    state.shown = new Map(walk.start.shown);
    if (vertex) openAround(graph, state, vertex.group);
    holding(last && `v${last.index}`, render);
    for (const box of inView(vertex)) view.bring(box);
    const stop = roveBoxes(vertex && `v${vertex.index}`);
    if (onBox) stop?.focus({ preventScroll: true });
    if (canAnswer) focusAnswer();
    writeAddress();
    announce(stepText(graph, walk));
  },
  /** Light or dark, other than the system's. */
  toggleTheme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  },
  /** Save the drawing as it looks now; the file needs no style sheet. */
  save() {
    const canvas = document.getElementById("canvas");
    const svg = canvas.cloneNode(true);
    const shown = [canvas, ...canvas.querySelectorAll("*")].map(element => getComputedStyle(element));
    [svg, ...svg.querySelectorAll("*")].forEach((element, i) => {
      element.removeAttribute("style");
      for (const name of SAVED) element.setAttribute(name, shown[i][name]);
    });
    for (const element of svg.querySelectorAll(".halo, .target, .knob")) element.remove();
    const { width, height } = view.scene;
    svg.setAttribute("viewBox", `-16 -16 ${width + 32} ${height + 32}`);
    svg.prepend(s("rect", { x: -16, y: -16, width: "100%", height: "100%", fill: shown[0].backgroundColor }));
    const file = new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
    h("a", { href: URL.createObjectURL(file), download: "graph.svg" }).click();
    announce("The drawing is saved as graph.svg.");
  },
  toggleQuiz() {
    state.walk.quiz = !state.walk.quiz;
    if (state.walk.quiz) actions.goTo(stepWithQuestion(state.walk));
    else render();
    announce(state.walk.quiz ? "Quiz on: results are hidden until you type them." : "Quiz off.");
  },
  /** Show how a cell of a step's result is computed (`table` is "cell"), or of a sum ("sum"). */
  chooseCell(edge, flat, table = "cell") {
    state.walk.cells.set(cellKey(edge, table), flat);
    renderPanel();
    const button = document.getElementById(`${table}-${edge.place}-${flat}`);
    button.focus();
    announce(
      button.closest(".card").querySelector(`[data-${table === "sum" ? "sum" : "terms"}]`)?.textContent ?? "",
    );
  },
  reveal(edge, said) {
    state.walk.known.add(cellKey(edge));
    render();
    const next = panel.querySelector(".question input") ?? document.getElementById("next-step");
    next?.focus();
    announce(said);
  },
};

/** Focus the quiz's first open question. */
export function focusAnswer() {
  if (state.walk?.quiz) panel.querySelector(".question input")?.focus({ preventScroll: true });
}

/** Keep what the user opened or folded in the following steps. */
function keepOpen() {
  if (state.walk) state.walk.start = { open: new Set(state.open), shown: new Map(state.shown) };
}

/** Keep a box where it is on the screen while something else is drawn. */
function holding(id, change) {
  const before = id && sceneBox(id);
  change();
  const after = id && sceneBox(id);
  if (before && after) view.hold(before, after);
}

/** The boxes to bring into view at a step: the inputs, and last, so that it wins, the op. */
function inView(vertex) {
  const isSource = other => other.isOutput && state.walk.step === 0;
  const isLeaf = other => other.kind !== "op" && other.gradient && state.walk.step > 0;
  const vertices = vertex
    ? [...vertex.inputs.filter(edge => edge.gradient).map(edge => edge.source), vertex.index]
    : graph.vertices.filter(other => isSource(other) || isLeaf(other)).map(other => other.index);
  const boxes = vertices.map(i => sceneBox(visibleBox(graph, state, i)));
  return boxes.filter(box => box && box.kind !== "frame");
}
