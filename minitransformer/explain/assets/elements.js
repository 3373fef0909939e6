// Tokens and symbols as elements. `h`, `s` and `announce` are those of the graph page, `dom.js`.

/** A token as it is shown: spaces and line ends are visible. */
function shownToken(token) {
  if (token === undefined) return "";
  return token.replace(/\n/g, "↵").replace(/\u00a0/g, "⍽").replace(/^ | $/g, "␣") || "∅";
}

/** `W_Q` with its index lowered. */
function symbol(text) {
  const [name, index] = text.split("_");
  return h("var", {}, name, index ? h("sub", {}, index) : null);
}
