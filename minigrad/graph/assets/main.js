// Starts the page.

/** `graph.html#step=4` opens at a step of the walk. */
function goToHash() {
  const step = new URLSearchParams(location.hash.slice(1)).get("step");
  if (!/^\d+$/.test(step ?? "") || !walkBack(graph).length) return;
  if (!state.walk) actions.startWalk();
  actions.goTo(Number(step));
}

document.addEventListener("keydown", onKey);
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));
addEventListener("hashchange", goToHash);
renderToolbar();
addSplitter();
render();
view.fit();
goToHash();
