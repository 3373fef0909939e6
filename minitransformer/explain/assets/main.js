// The start: read the page, run the model, show the first stage.

const page = load();

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
      h("details", { class: "what-if switches", open: isOpen("switches") }, whatIfMenu(e)),
      e.problem ? h("p", { class: "problem", role: "alert" }, e.problem) : null,
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

/** What the model makes of the sentence. */
function answerOf(e) {
  const text = answerText(e, e.answer, e.structure.output.head ? bestLabelsOf(e.record) : []);
  return text || e.isPair ? `→ ${text}` : "";
}

/** An answer that was written, or the label of what is classified. */
function answerText(e, answer, best) {
  if (e.isPair) return e.model.decode(answer.ids);
  const { head, labels } = e.structure.output;
  if (!head) return `…${e.model.decode(answer.ids)}`;
  return labels && best.length === 1 ? labels[best[0]] : "";
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
function followLink(event) {
  const address = event.target.closest?.('a[href^="#"]')?.getAttribute("href").slice(1);
  if (!address || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (address === "screen") document.getElementById("screen").focus();
  else go(address);
}

page.residual = residualPaths(page)[0];
page.forward = forwardPaths(page)[0];
page.screens = makeScreens(page);
rememberStart(page);
document.getElementById("map").hidden = false;
listeners.push(render, keepAddress);
listenToKeys(page);
listenToPointer(page);
document.addEventListener("click", followLink);
document.addEventListener("click", event => event.target.closest(".switches") || closeWhatIf());
addEventListener("hashchange", () => followHistory(page));
addEventListener("resize", () => render(page));
page.followed = location.hash;
if (!location.hash || !follow(page, location.hash)) render(page);
keepAddress(page);
document.body.classList.add("ready");
addEventListener("load", () => {
  if (location.hash) scrollTo(0, 0); // the browser goes to the heading, below the toolbar
});
