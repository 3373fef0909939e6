// The tools above the drawing: search, colours, zoom, folding, the walk. Where the page is narrow, all but the
// walk are behind a button.

import { actions } from "./actions.js";
import { h } from "./dom.js";
import { findNext, onSearch, onSearchKey } from "./search.js";
import { graph, isDark, state, view } from "./showing.js";
import { walkBack } from "./walk.js";

export function renderToolbar() {
  const toolbar = document.getElementById("toolbar");
  toolbar.hidden = false;
  if (!toolbar.childElementCount) {
    toolbar.append(...tools());
    showTheme();
  }
  document.getElementById("walk")?.setAttribute("aria-pressed", String(Boolean(state.walk)));
}

function tools() {
  const canWalk = walkBack(graph).length > 0;
  return [
    h(
      "div",
      { id: "tools" },
      searchTool(),
      colourTool(),
      zoomTool(),
      graph.groups.length > 1 && foldTool(),
      themeTool(),
      location.protocol !== "about:" && tool("Save", "Save the drawing as an SVG file", actions.save),
    ),
    h(
      "button",
      {
        type: "button",
        id: "tools-button",
        "aria-expanded": "false",
        "aria-controls": "tools",
        onclick: () => openTools(!document.getElementById("tools").classList.contains("open")),
      },
      "Tools",
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

/** Show the tools of a narrow page, or hide them; a wide one shows them always. */
export function openTools(isOpen) {
  document.getElementById("tools").classList.toggle("open", isOpen);
  document.getElementById("tools-button").setAttribute("aria-expanded", String(isOpen));
}

function tool(text, label, onclick) {
  return h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
}

function searchTool() {
  const onsubmit = event => {
    event.preventDefault();
    findNext(1);
  };
  return h(
    "form",
    { role: "search", onsubmit },
    h("label", { class: "unseen", for: "search" }, "Search names, operations and source lines"),
    h("input", {
      id: "search",
      type: "search",
      placeholder: "Search  /",
      autocomplete: "off",
      oninput: onSearch,
      onkeydown: onSearchKey,
    }),
    h("span", { id: "matches", role: "status" }),
  );
}

function colourTool() {
  const colour = h(
    "select",
    { id: "colour", onchange: event => actions.colour(event.target.value) },
    Object.entries(graph.colours).map(([mode, means]) => h("option", { value: mode }, means.split(" (")[0])),
  );
  colour.value = state.colour;
  return h("label", { for: "colour" }, "Colour ", colour);
}

function zoomTool() {
  return h(
    "span",
    { class: "together" },
    tool("−", "Zoom out", () => view.zoom(1 / 1.25)),
    tool("Fit", "Fit the graph into the window", actions.fit),
    tool("+", "Zoom in", () => view.zoom(1.25)),
  );
}

function themeTool() {
  return h("button", { type: "button", id: "theme", onclick: actions.toggleTheme }, "Dark");
}

/** The switch names what it leads to. */
export function showTheme() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
}

function foldTool() {
  return h(
    "span",
    { class: "together" },
    tool("Unfold all", "Unfold everything", actions.unfoldAll),
    tool("Fold", "Fold as at the start", actions.foldAgain),
  );
}
