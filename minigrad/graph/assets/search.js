// Search in names, paths, operations and their parts, and source lines.

import { actions } from "./actions.js";
import { chainOf } from "./data.js";
import { count } from "./numbers.js";
import { stepOf } from "./progress.js";
import { graph, render, roveBoxes, searchable, state } from "./showing.js";

/** The vertices, each with the text to search. */
export function searchIndex(graph) {
  return graph.vertices.map(vertex => {
    const around = chainOf(graph, vertex.group).at(-1);
    return [
      vertex.label,
      vertex.title,
      vertex.name,
      vertex.family,
      vertex.parts,
      vertex.code,
      vertex.source,
      around.path,
      around.kind,
    ]
      .join("\n")
      .toLowerCase();
  });
}

/** Indices of vertices in whose text each word occurs. */
function findAll(index, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [];
  return index.flatMap((text, i) => (wanted.every(word => text.includes(word)) ? [i] : []));
}

export function onSearch(event) {
  state.found = findAll(searchable, event.target.value);
  state.foundAt = -1;
  showMatches();
  render();
}

export function onSearchKey(event) {
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

export function findNext(by) {
  const n = state.found.length;
  if (!n) return showMatches();
  state.foundAt = state.foundAt < 0 ? (by > 0 ? 0 : n - 1) : (state.foundAt + by + n) % n;
  const vertex = graph.vertices[state.found[state.foundAt]];
  if (state.walk && vertex.gradient) actions.goTo(stepOf(graph, state.walk, vertex));
  else actions.select(vertex);
  showMatches();
}

function showMatches() {
  const n = state.found.length;
  const typed = document.getElementById("search").value.trim();
  const text = state.foundAt < 0 ? count(n, "match", "matches") : `${state.foundAt + 1} of ${n}`;
  document.getElementById("matches").textContent = typed ? text : "";
}
