// The tools above the drawing: search, colours, zoom, folding, the walk.

function renderToolbar() {
  const toolbar = document.getElementById("toolbar");
  toolbar.hidden = false;
  if (!toolbar.childElementCount) toolbar.append(...tools());
  document.getElementById("walk")?.setAttribute("aria-pressed", String(Boolean(state.walk)));
}

function tools() {
  const button = (text, label, onclick) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
  const colour = h("select", { id: "colour", onchange: event => actions.colour(event.target.value) },
    Object.entries(graph.colours).map(([mode, means]) => h("option", { value: mode }, means.split(" (")[0])),
  );
  colour.value = state.colour;
  const canWalk = walkBack(graph).length > 0;
  return [
    h(
      "form",
      {
        role: "search",
        onsubmit: event => {
          event.preventDefault();
          findNext(1);
        },
      },
      h("label", { class: "unseen", for: "search" }, "Search names, operations and source lines"),
      h("input", {
        id: "search", type: "search", placeholder: "Search  /", autocomplete: "off", oninput: onSearch,
        onkeydown: onSearchKey,
      }),
      h("span", { id: "matches", role: "status" }),
    ),
    h("label", { for: "colour" }, "Colour ", colour),
    h("span", { class: "together" },
      button("−", "Zoom out", () => view.zoom(1 / 1.25)),
      button("Fit", "Fit the graph into the window", () => view.fit(true, true)),
      button("+", "Zoom in", () => view.zoom(1.25)),
    ),
    graph.groups.length > 1 &&
      h("span", { class: "together" },
        button("Unfold all", "Unfold everything", actions.unfoldAll),
        button("Fold", "Fold as at the start", actions.foldAgain),
      ),
    canWalk &&
      h(
        "button",
        {
          type: "button",
          id: "walk",
          class: "primary",
          "aria-pressed": "false",
          onclick: () => (state.walk ? actions.endWalk() : actions.startWalk()),
        },
        "Walk backward",
      ),
  ].filter(Boolean);
}
