// The state of the page, and how the drawing and the panel are rendered from it.

import { actions } from "./actions.js";
import { linesOf, readGraph } from "./data.js";
import { announce, h } from "./dom.js";
import { draw, drawLegend } from "./drawing.js";
import { fitFormulas, fitTables, reachScrollable } from "./elements.js";
import { visibleBox } from "./folding.js";
import { groupPanel, overviewPanel, vertexPanel } from "./panel.js";
import { HEADER, layOut, openWhatFits } from "./placing.js";
import { decorateWalk, opAt } from "./progress.js";
import { searchIndex } from "./search.js";
import { STACKED } from "./split.js";
import { stepPanel } from "./stepper.js";
import { View } from "./view.js";

export const graph = readGraph(document.getElementById("data").textContent);
export const state = {
  open: new Set(graph.open),
  shown: new Map(graph.shown),
  colour: graph.colour,
  selected: null,
  walk: null,
  found: [],
  foundAt: -1,
  legend: false,
};
export const panel = document.getElementById("panel");
const stage = document.getElementById("graph");
export const searchable = searchIndex(graph);
export const view = new View(stage);
const LEAST_SCALE = { wide: 0.58, stacked: 0.4 }; // of a graph that opens as a whole

/** The fold of the start: the one that was chosen, or what can be read in this window. */
export function foldAsAtStart() {
  state.open = new Set(graph.open);
  state.shown = new Map(graph.shown);
  const least = STACKED.matches ? LEAST_SCALE.stacked : LEAST_SCALE.wide;
  openWhatFits(graph, state, scene => view.scaleOf(scene) >= least);
}

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Render what changed, and keep the keyboard's focus. */
export function render() {
  const focus = document.activeElement?.id;
  view.scene = sceneNow();
  const walk = state.walk && [state.walk.step, state.walk.quiz, ...state.walk.known];
  const key = `${view.key} ${state.found} ${walk}`;
  if (key !== view.drawn) renderDrawing();
  view.drawn = key;
  for (const old of document.querySelectorAll("#world .selected")) old.classList.remove("selected");
  if (state.selected && !state.walk) document.getElementById(state.selected)?.classList.add("selected");
  renderPanel();
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}

function renderDrawing() {
  const old = document.getElementById("drawing");
  const drawing = h(
    "div",
    { id: "drawing" },
    draw(graph, view.scene, state, decorate, actions),
    legendButton(),
    drawLegend(graph, view.scene, state.colour),
  );
  drawing.classList.toggle("with-legend", state.legend);
  const { isFitted } = view;
  if (old) old.replaceWith(drawing);
  else stage.replaceChildren(drawing);
  roveBoxes();
  view.apply();
  view.isFitted = isFitted;
}

/** Where the page is narrow, the legend is behind a button. */
function legendButton() {
  return h(
    "button",
    {
      type: "button",
      id: "legend-button",
      "aria-expanded": String(state.legend),
      "aria-controls": "legend",
      onclick: actions.toggleLegend,
    },
    "Legend",
  );
}

/** The layout, computed again only if other groups are open, or boxes have other lines. */
function sceneNow() {
  const key = JSON.stringify([[...state.open], [...state.shown], state.colour]);
  if (view.key !== key) [view.key, view.scene] = [key, layOut(graph, state)];
  return view.scene;
}

export function renderPanel() {
  const key = panelKey();
  const content = panelContent().flat(Infinity).filter(Boolean);
  const top = key === panel.dataset.key ? panel.scrollTop : 0;
  panel.replaceChildren(...content);
  fitTables(panel);
  fitFormulas(panel);
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
  return state.selected[0] === "v"
    ? vertexPanel(graph, graph.vertices[i], actions)
    : groupPanel(graph, graph.groups[i], state, actions);
}

/** How a search and the walk change a box. */
function decorate(box) {
  const classes = [];
  if (foundBoxes().has(box.id)) classes.push("found");
  const lines = box.kind === "frame" ? null : linesOf(graph, box.id, state.colour);
  if (!state.walk) return { lines, classes };
  return decorateWalk(graph, state, box, lines, classes, receivingBoxes());
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

/** One box can be reached by Tab: the selected one, or the first. */
export function roveBoxes(id = state.selected) {
  for (const button of document.querySelectorAll("#world [tabindex='0']")) button.tabIndex = -1;
  const stop = (id && document.getElementById(id)) ?? document.querySelector("#world .boxes [role=button]");
  if (stop) stop.tabIndex = 0;
  return stop;
}

export function sceneBox(id) {
  return [...view.scene.boxes, ...view.scene.frames].find(box => box.id === id);
}

/** The head of an open group, with its name. */
export function headOf(box) {
  return box.kind === "frame" ? { ...box, height: HEADER } : box;
}

/** Select a box, open what is around it, and bring it into view. */
export function select(id, { focus = false } = {}) {
  state.selected = id;
  render();
  const box = sceneBox(id);
  if (!box) return;
  view.bring(headOf(box));
  const stop = roveBoxes(id);
  if (focus) stop.focus({ preventScroll: true });
  else announce(stop.getAttribute("aria-label"));
}
