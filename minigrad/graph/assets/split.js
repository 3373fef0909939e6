// The border between drawing and panel, which can be moved: by a pointer, or by arrow keys.

import { h } from "./dom.js";
import { fitFormulas, fitTables, reachScrollable } from "./elements.js";
import { panel } from "./showing.js";

export const STACKED = matchMedia("(max-width: 640px), (max-width: 1000px) and (orientation: portrait)");
const LEAST = 0.15, // share of the panel, at least and, from 1, at most
  KEY_STEP = 0.05;

/** Put the border between them. */
export function addSplitter() {
  const splitter = h("div", {
    id: "splitter",
    role: "separator",
    tabindex: 0,
    "aria-label": "Size of the details",
    "aria-controls": "panel",
    onpointerdown: onSplitDown,
    onkeydown: onSplitKey,
    ondblclick: () => split(null),
  });
  panel.before(splitter);
  STACKED.addEventListener("change", () => split(null));
  new ResizeObserver(describeSplit).observe(panel);
}

/** The panel's share of the window's width or, below the drawing, height. */
function shareOfPanel() {
  const [part, all] = [panel, panel.parentElement].map(element => element.getBoundingClientRect());
  return STACKED.matches ? part.height / all.height : part.width / all.width;
}

/** Set that share; null is the one of the style sheet. */
function split(share) {
  const { style } = panel.parentElement;
  const limited = share === null ? null : Math.min(1 - LEAST, Math.max(LEAST, share));
  for (const name of ["--across", "--down"]) style.removeProperty(name);
  if (limited !== null) style.setProperty(STACKED.matches ? "--down" : "--across", `${100 * limited}%`);
}

function describeSplit() {
  const splitter = document.getElementById("splitter");
  splitter.setAttribute("aria-orientation", STACKED.matches ? "horizontal" : "vertical");
  splitter.setAttribute("aria-valuenow", String(Math.round(100 * shareOfPanel())));
  fitTables(panel);
  fitFormulas(panel);
  reachScrollable(panel);
}

function onSplitDown(event) {
  event.preventDefault();
  const splitter = event.currentTarget;
  splitter.setPointerCapture(event.pointerId);
  const { right, bottom, width, height } = panel.parentElement.getBoundingClientRect();
  splitter.onpointermove = ({ clientX, clientY }) =>
    split(STACKED.matches ? (bottom - clientY) / height : (right - clientX) / width);
  splitter.onpointerup = splitter.onpointercancel = () => (splitter.onpointermove = null);
}

function onSplitKey(event) {
  const larger = { ArrowUp: 1, ArrowLeft: 1, ArrowDown: -1, ArrowRight: -1 }[event.key];
  if (!larger) return;
  event.preventDefault();
  event.stopPropagation();
  split(shareOfPanel() + larger * KEY_STEP);
}
