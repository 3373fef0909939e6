// Starts the page.

import { actions } from "./actions.js";
import { onKey } from "./keys.js";
import { foldAsAtStart, graph, render, state, view } from "./showing.js";
import { addSplitter } from "./split.js";
import { renderToolbar } from "./tools.js";
import { walkBack } from "./walk.js";

/** `graph.html#step=4` opens at a step of the walk. */
function goToHash() {
  const step = new URLSearchParams(location.hash.slice(1)).get("step");
  if (!/^\d+$/.test(step ?? "") || !walkBack(graph).length) return;
  if (!state.walk) actions.startWalk();
  actions.goTo(Number(step));
}

/** Put the step into the address; not in a frame, whose address is its text. */
export function writeAddress() {
  if (location.protocol === "about:") return;
  const { pathname, search } = location;
  history.replaceState(null, "", state.walk ? `#step=${state.walk.step}` : pathname + search);
}

document.addEventListener("keydown", onKey);
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));
addEventListener("hashchange", goToHash);
renderToolbar();
addSplitter();
render();
foldAsAtStart();
render();
view.open();
goToHash();
