// The keyboard: ← and → turn the stages, letters do what the buttons do.

import { nextWord } from "./output.js";
import { closeWhatIf } from "./parts.js";
import { playOrStop, playToWord } from "./play.js";
import { startQuiz } from "./quiz.js";
import { stepScreen } from "./screens.js";
import { closeCard } from "./stagewords.js";

function isPicture() {
  return document.body.classList.contains("picturing");
}

/** Whose lines the picture has after these: the mean's, then each head's. */
function nextLines(e) {
  const next = e.pictureHead === null ? 0 : e.pictureHead + 1;
  return next < Math.max(...e.structure.stacks.map(({ heads }) => heads)) ? next : null;
}

export function listenToKeys(e) {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === " " && isPicture() && !event.target.closest("button, input, select, summary, a")) {
      event.preventDefault();
      return playOrStop(e);
    }
    if (event.key === " " && event.target.matches("a[role=button]")) {
      event.preventDefault();
      return event.target.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    }
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape") {
      if (closeWhatIf()) e.show();
      else if (typing) event.target.blur();
      else if (e.opened) closeCard(e);
      else if (e.cell || e.quiz) e.set({ cell: null, quiz: null });
      return;
    }
    if (typing || (event.key.length === 1 && !e.letterKeys)) return;
    const region = event.target.closest(".scroll");
    if (region && region.scrollWidth > region.clientWidth && event.key.startsWith("Arrow")) return; // they scroll it
    const actions = {
      ArrowLeft: () => stepScreen(e, -1),
      ArrowRight: () => stepScreen(e, 1),
      g: () => e.set({ backward: !e.backward }),
      n: () => (isPicture() ? playToWord(e) : nextWord(e)),
      q: () => startQuiz(e),
      h: () =>
        e.path &&
        e.set(isPicture() ? { pictureHead: nextLines(e) } : { head: (e.head + 1) % e.stackOf(e.path).heads }),
      "/": () => document.getElementById("sentence")?.focus(),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
