// Starts the page.

/** `graph.html#step=4` opens at a step of the walk. */
function goToHash() {
  const step = new URLSearchParams(location.hash.slice(1)).get("step");
  if (!/^\d+$/.test(step ?? "") || !walkBack(graph).length) return;
  if (!state.walk) actions.startWalk();
  actions.goTo(Number(step));
}

/** Put the step into the address; not in a frame, whose address is its text. */
function writeAddress() {
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
