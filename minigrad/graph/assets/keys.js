// What each key does, in the drawing, in the walk, and everywhere.

import { actions, focusAnswer } from "./actions.js";
import { graph, panel, render, roveBoxes, sceneBox, select, state, view } from "./showing.js";
import { openTools } from "./tools.js";
import { STEP, nextBox } from "./view.js";
import { walkBack } from "./walk.js";

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function onKey(event) {
  if (onAnswerKey(event)) return event.preventDefault();
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.matches("input:not([type=checkbox]), select, textarea")
  )
    return;
  const direction = DIRECTIONS[event.key];
  const inPanel = panel.contains(event.target);
  const done = direction ? onArrow(event, direction, inPanel) : onLetter(event, inPanel);
  if (done) event.preventDefault();
}

/** In the quiz's field, as long as it is empty, the keys of the walk still work. */
function onAnswerKey(event) {
  if (!event.target.matches(".question input") || event.ctrlKey || event.metaKey || event.altKey)
    return false;
  const { step, last } = state.walk;
  const steps = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: last };
  if (event.key === "Escape") actions.endWalk();
  else if (event.shiftKey || event.target.value) return false;
  else if (event.key in steps) actions.goTo(steps[event.key]);
  else if (event.key === "q") actions.toggleQuiz();
  else return false;
  return true;
}

function onArrow(event, direction, inPanel) {
  if (event.shiftKey) {
    view.move(-direction[0] * STEP, -direction[1] * STEP);
    return true;
  }
  if (state.walk) {
    if (inPanel && direction[1]) return false; // up and down scroll what is read
    actions.goTo(state.walk.step + direction[0] + direction[1]);
    return true;
  }
  const box = sceneBox(event.target.id);
  if (!box) return false;
  const next = nextBox([...view.scene.boxes, ...view.scene.frames], box, direction);
  if (next) select(next.id, { focus: true });
  return true;
}

function onLetter(event, inPanel) {
  const keys = {
    "/": () => {
      openTools(true);
      document.getElementById("search").focus();
    },
    b: () => walkBack(graph).length && (state.walk ? actions.endWalk() : actions.startWalk()),
    q: () => {
      if (!state.walk) return;
      actions.toggleQuiz();
      focusAnswer();
    },
    "+": () => view.zoom(1.25),
    "=": () => view.zoom(1.25),
    "-": () => view.zoom(1 / 1.25),
    0: actions.fit,
    Escape: () => onEscape(inPanel),
  };
  if (state.walk)
    Object.assign(keys, { Home: () => actions.goTo(0), End: () => actions.goTo(state.walk.last) });
  const box = event.target.closest?.("#world [role=button]");
  if (box) for (const key of ["Enter", " "]) keys[key] = () => onEnter(box.id);
  if (!keys[event.key]) return false;
  keys[event.key]();
  return true;
}

/** On a part: fold or unfold; on anything else: focus its details. */
function onEnter(id) {
  const box = sceneBox(id);
  actions.press(box);
  if (box.kind === "vertex") panel.querySelector("h2")?.focus();
}

function onEscape(inPanel) {
  openTools(false);
  if (inPanel && !state.walk) roveBoxes()?.focus();
  else if (state.walk) actions.endWalk();
  else {
    state.selected = null;
    render();
  }
}
