// The page comes to life.

/** `graph.html#step=4` opens at a step of the walk. */
function goWhereAsked() {
  const step = new URLSearchParams(location.hash.slice(1)).get("step");
  if (!/^\d+$/.test(step ?? "") || !walkBack(graph).length) return;
  if (!state.walk) actions.startWalk();
  actions.goTo(Number(step));
}

document.addEventListener("keydown", onKey);
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));
addEventListener("hashchange", goWhereAsked);
renderToolbar();
render();
view.fit();
goWhereAsked();
