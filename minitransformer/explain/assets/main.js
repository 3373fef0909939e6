// The start: read the page, run the model, show the first stage.

import { flat, h } from "../../../minigrad/graph/assets/dom.js";
import { copyLink, keepAddress, linkField, rememberStart } from "./address.js";
import { shortened } from "./elements.js";
import { listenToPointer, showLinks } from "./equation.js";
import { imageField } from "./image.js";
import { renderInspector } from "./inspector.js";
import { chooseTarget } from "./journey.js";
import { listenToKeys } from "./keys.js";
import { forwardPaths, residualPaths } from "./layers.js";
import { renderMap } from "./map.js";
import { closeWhatIf, whatIfMenu } from "./parts.js";
import { playFromStart } from "./play.js";
import { startQuiz } from "./quiz.js";
import { follow, followHistory, go, makeScreens, renderScreen } from "./screens.js";
import { Explanation, answerOf, listeners, readPage } from "./state.js";
import { update } from "./update.js";
import { answerBefore } from "./whatif.js";

/** The model on the page's text; an error is told in the page. */
function load() {
  try {
    return new Explanation(readPage());
  } catch (error) {
    document.getElementById("screen").prepend(h("p", { class: "problem", role: "alert" }, error.message));
    throw error;
  }
}

const PAUSE_OF_TYPING = 700; // milliseconds

/** Runs the model on a text, or after a pause in which no other one is typed. */
function readTyped(e, text, pause = 0) {
  clearTimeout(e.typing);
  if (pause) e.typing = setTimeout(readTyped, pause, e, text);
  else if (text !== e.text) e.set({ text, target: null });
}

function renderToolbar(e) {
  const bar = document.getElementById("toolbar");
  const isOpen = name => bar.querySelector(`details.${name}`)?.open ?? false;
  bar.hidden = false;
  update(
    bar,
    flat([
      e.isImage
        ? imageField(e, isOpen("draw"))
        : h(
            "label",
            { class: "sentence" },
            h("span", { class: "name" }, "Sentence"),
            h("input", {
              id: "sentence",
              value: e.text,
              "data-key": "sentence",
              dir: "auto",
              autocomplete: "off",
              spellcheck: "false",
              maxlength: 2000,
              oninput: event => readTyped(e, event.target.value, e.isLarge ? PAUSE_OF_TYPING : 0),
              onchange: event => readTyped(e, event.target.value),
            }),
          ),
      h(
        "div",
        { class: "answers", tabindex: 0, role: "group", "aria-label": "The answer" },
        h("output", { class: "answer", dir: "auto" }, e.problem ? "" : answerOf(e)),
        e.problem ? null : answerBefore(e),
      ),
      h(
        "button",
        {
          type: "button",
          "aria-pressed": e.backward ? "true" : "false",
          "data-key": "gradients",
          onclick: () => e.set({ backward: !e.backward }),
        },
        "Gradients",
      ),
      h("button", { type: "button", "data-key": "quiz", onclick: () => startQuiz(e) }, "Quiz me"),
      location.protocol === "about:"
        ? null
        : h(
            "button",
            { type: "button", "data-key": "copy-link", onclick: () => copyLink(e) },
            e.copied ? "Copied" : "Copy link",
          ),
      h("details", { class: "what-if switches", open: isOpen("switches") }, whatIfMenu(e, isOpen("switches"))),
      e.problem
        ? h(
            "p",
            { class: "problem", role: "alert" },
            `${e.problem}\nThe page still shows “${shortened(e.textRead, 60)}”.`,
          )
        : null,
      linkField(e),
      unknownWords(e),
      e.notice ? h("p", { class: "note", role: "status" }, e.notice) : null,
    ]),
  );
}

/** Which words the model does not know. */
function unknownWords(e) {
  const words = e.unknownTexts();
  const token = e.tokenOf(e.data.tokenizer?.unk_id);
  return words.length
    ? h(
        "p",
        { class: "note unknown", role: "status" },
        `The model does not know ${words.map(word => `“${word}”`).join(", ")}: it reads ${token} instead.`,
      )
    : null;
}

/** Shows everything. An element that had the focus and is gone leaves it to the one with the same key. */
function render(e) {
  const focused = document.activeElement;
  const panel = document.getElementById("inspector").contains(focused);
  renderToolbar(e);
  document.documentElement.style.setProperty(
    "--header",
    `${document.querySelector("header").offsetHeight}px`,
  ); // below it, the map sticks
  renderMap(e);
  renderScreen(e);
  renderInspector(e);
  showLinks(e);
  if (!focused?.dataset.key || focused.isConnected) return;
  const again = scope => document.querySelector(`${scope} [data-key="${CSS.escape(focused.dataset.key)}"]`);
  ((panel ? again("#inspector") : null) ?? again("body"))?.focus({ preventScroll: true });
}

/** Links lead to stages also in a notebook's frame, where the browser takes them for links to the notebook. */
function followLink(e, event) {
  const address = event.target.closest?.('a[href^="#"]')?.getAttribute("href").slice(1);
  if (!address || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (address === "screen") document.getElementById("screen").focus();
  else e.go(address);
}

function start() {
  const e = load();
  e.residual = residualPaths(e)[0];
  e.forward = forwardPaths(e)[0];
  e.screens = makeScreens(e);
  e.go = address => go(e, address);
  rememberStart(e);
  document.getElementById("map").hidden = false;
  listeners.push(chooseTarget, render, keepAddress);
  listenToKeys(e);
  listenToPointer(e);
  document.addEventListener("click", event => followLink(e, event));
  const isInMenu = event => event.composedPath().includes(document.querySelector(".switches")); // also of a button that is gone
  document.addEventListener("click", event => !isInMenu(event) && closeWhatIf() && e.show());
  addEventListener("hashchange", () => followHistory(e));
  addEventListener("resize", () => render(e));
  e.followed = location.hash;
  if (!location.hash || !follow(e, location.hash)) render(e);
  if (!location.hash) playFromStart(e);
  keepAddress(e);
  document.body.classList.add("ready");
}

start();
addEventListener("load", () => {
  if (location.hash) scrollTo(0, 0); // the browser goes to the heading, below the toolbar
});
