// Which boxes are shown: closed groups and the contents of open ones (folding.py does the same in Python).
//
// A state has `open`, the groups that are open, and `shown`, which member of an open stack is shown
// (ALL: every one).

import { chainOf, contentsOf } from "./data.js";

export const ALL = -1;

export function memberOf(state, stack) {
  return state.shown.get(stack) ?? 0;
}

/** The group whose items an open group shows: itself, or the shown member of a stack. */
export function innerOf(graph, state, group) {
  const found = graph.groups[group];
  return found.isStack && memberOf(state, group) !== ALL ? found.groups[memberOf(state, group)] : group;
}

/** The boxes in an open group: ids such as `v3` and `g2`. */
export function itemsOf(graph, state, group) {
  const found = graph.groups[innerOf(graph, state, group)];
  return [...found.vertices.map(i => `v${i}`), ...found.groups.map(i => `g${i}`)];
}

/** The box that shows a vertex: its own, a closed group around it, or its counterpart in the shown member. */
export function visibleBox(graph, state, vertex) {
  let depth = 0;
  for (;;) {
    const around = chainOf(graph, graph.vertices[vertex].group).map(group => group.index);
    let other = null;
    for (; depth < around.length && other === null; depth += 1) {
      const group = around[depth];
      if (depth && !state.open.has(group)) return `g${group}`;
      const inner = innerOf(graph, state, group);
      if (inner !== group && around[depth + 1] !== inner) {
        other = contentsOf(graph, inner)[contentsOf(graph, around[depth + 1]).indexOf(vertex)];
      }
    }
    if (other === null) return `v${vertex}`;
    vertex = other;
  }
}

/** Open the groups around a group, and show the members that contain it. True if anything changed. */
export function openAround(graph, state, group) {
  let changed = false;
  for (const around of chainOf(graph, group)) {
    if (!state.open.has(around.index)) changed = true;
    state.open.add(around.index);
    const stack = around.parent === null ? null : graph.groups[around.parent];
    if (!stack?.isStack || memberOf(state, stack.index) === ALL) continue;
    const place = stack.groups.indexOf(around.index);
    if (place !== memberOf(state, stack.index)) changed = true;
    state.shown.set(stack.index, place);
  }
  return changed;
}

/** Open a group; of a stack its members as well. */
export function openGroup(graph, state, group) {
  state.open.add(group);
  if (graph.groups[group].isStack) for (const member of graph.groups[group].groups) state.open.add(member);
}

export function openAll(graph, state) {
  for (const group of graph.groups) {
    state.open.add(group.index);
    if (group.isStack) state.shown.set(group.index, ALL);
  }
}
