// Tokens and symbols as elements. `h`, `s` and `announce` are those of the graph page, `dom.js`.

/** A token as it is shown: spaces and line ends are visible. */
function shownToken(token) {
  if (token === undefined) return "";
  return (
    token
      .replace(/\n/g, "↵")
      .replace(/\u00a0/g, "⍽")
      .replace(/^ | $/g, "␣") || "∅"
  );
}

/** What a row of the tables stands for: a word, a character, a token (a word or a part of one), or a patch. */
function unitOf(e) {
  if (e.isImage) return "patch";
  const { layout } = e.data.tokenizer;
  return layout.endsWith("word") ? "word" : layout === "char" ? "character" : "token";
}

/** What the model predicts: one of these, or a class. */
function answerUnit(e) {
  const { head } = e.structure.output;
  return head && head !== "masked_lm" ? "class" : unitOf(e);
}

function unitsOf(e) {
  return e.isImage ? "patches" : `${unitOf(e)}s`;
}

/** `W_Q` with its index lowered. */
function symbol(text) {
  const [name, index] = text.split("_");
  return h("var", {}, name, index ? h("sub", {}, index) : null);
}
