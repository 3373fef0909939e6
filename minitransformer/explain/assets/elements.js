// Tokens and symbols as elements. `h`, `s` and `announce` are those of the graph page, `dom.js`.

import { h } from "../../../minigrad/graph/assets/dom.js";

/** A token as it is shown: spaces and line ends are visible. */
export function shownToken(token) {
  if (token === undefined) return "";
  return (
    token
      .replace(/\n/g, "↵")
      .replace(/\u00a0/g, "⍽")
      .replace(/^ | $/g, "␣") || "∅"
  );
}

export function hint(...content) {
  return h("p", { class: "hint" }, content);
}

/** What may be wider than the page: a region that keys scroll. */
export function scrolling(label, ...content) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, content);
}

/** A text of at most so many letters. */
export function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 2)}…` : text;
}

/** What a row of the tables stands for: a word, a character, a token (a word or a part of one), or a patch. */
export function unitOf(e) {
  if (e.isImage) return "patch";
  const { layout } = e.data.tokenizer;
  return layout.endsWith("word") ? "word" : layout === "char" ? "character" : "token";
}

/** What the model predicts: one of these, or a class. */
export function answerUnit(e) {
  const { head } = e.structure.output;
  return head && head !== "masked_lm" ? "class" : unitOf(e);
}

export function unitsOf(e) {
  return e.isImage ? "patches" : `${unitOf(e)}s`;
}

/** `W_Q` with its index lowered. */
export function symbol(text) {
  const [name, index] = text.split("_");
  return h("var", { class: roleClass(text) }, name, index ? h("sub", index) : null);
}

/** The class of queries, keys and values, which have a colour each: of `Q`, of `W_Q`, or of an array's name. */
export function roleClass(name) {
  const [, role] = /(?:^|^W_|attention\.)([qkv])(?:_\w+)?$/i.exec(name ?? "") ?? [];
  return role ? `role-${role.toLowerCase()}` : null;
}

/** A formula whose Q, K and V have their colours. */
export function withRoles(formula) {
  return formula
    .split(/([QKV](?![a-z]))/)
    .map((part, i) => (i % 2 ? h("span", { class: roleClass(part) }, part) : part));
}

export const ATTENTION_STAGES = [
  "attention",
  "qkv",
  "scores",
  "scale",
  "mask",
  "softmax",
  "weighted-sum",
  "heads",
];

export function titleOfPath(path) {
  const [, stack, layer, kind] = path.match(/^(\w+)\.layers\.(\d+)\.(\w+)$/);
  const words = {
    self_attention: "self-attention",
    cross_attention: "cross-attention",
    feed_forward: "feed forward",
  };
  return `${stack === "layers" ? "" : `${stack} `}layer ${Number(layer) + 1}, ${words[kind]}`;
}

/** Which attention: [its layer, its kind], "decoder layer 1" and "masked attention". */
export function attentionOf(e, path) {
  const [, stack, layer] = path.match(/^(\w+)\.layers\.(\d+)\./);
  const kind = path.includes("cross")
    ? "cross-attention"
    : e.plan.get(`${path}.masked`).causal
      ? "masked attention"
      : "self-attention";
  return [`${e.isPair ? `${stack} ` : ""}layer ${Number(layer) + 1}`, kind];
}

/** "heads 1 and 3 of decoder layer 1's masked attention". */
export function headsOf(e, path, heads) {
  const numbers = heads.map(i => i + 1).sort((a, b) => a - b);
  const which =
    heads.length === 1
      ? `head ${numbers[0]}`
      : heads.length === e.stackOf(path).heads
        ? "all heads"
        : `heads ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;
  return `${which} of ${attentionOf(e, path).join("'s ")}`;
}

/** What names the rows of an axis: in a decoder's attentions the last token read, in the alignment the one written. */
export function titleOfRows(e, axis) {
  if (e.screen === "alignment") return "when writing";
  const isAttention = [...ATTENTION_STAGES, "cross-attention"].includes(e.screen);
  const stack = { "token:source": e.structure.stacks[0], "token:target": e.structure.stacks.at(-1) }[axis];
  return isAttention && stack?.causal ? "after reading" : "";
}
