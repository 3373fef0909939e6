// Questions, of this page and of others: with choices, or with a field for what a reader types.

import { h } from "./dom.js";

/**
 * A question has a `text`, and `choices` of which `right` is the index, with a `why` and maybe a `hint`; or `isRight`
 * and `hint` of what is typed, and `reveal(said)`, which ends it. It keeps what was `chosen` and `said`. `draw` makes
 * the content of a choice.
 */
export function questionForm(asked, id, draw = choice => choice) {
  const reply = h("p", { class: "reply", role: "status", id: `${id}-reply` }, asked.said);
  return asked.choices ? withChoices(asked, id, draw, reply) : withField(asked, id, reply);
}

function say(asked, form, said) {
  asked.said = said;
  form.querySelector(".reply").replaceChildren(said);
}

function withChoices(asked, id, draw, reply) {
  const choose = ({ currentTarget }, i) => {
    const form = currentTarget.closest(".question");
    for (const button of form.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button === currentTarget));
    asked.chosen = i;
    const hint = asked.hint ?? `It is ${asked.choices[asked.right]}. ${asked.why}`;
    say(asked, form, i === asked.right ? `Right. ${asked.why}` : `No. ${hint}`);
  };
  const button = (choice, i) =>
    h(
      "button",
      {
        type: "button",
        "data-key": `option:${i}`,
        "aria-pressed": String(asked.chosen === i),
        onclick: event => choose(event, i),
      },
      draw(choice),
    );
  return h(
    "div",
    { class: "question", role: "group", "aria-labelledby": id },
    h("p", { id }, asked.text),
    h("div", { class: "options" }, asked.choices.map(button)),
    reply,
  );
}

function withField(asked, id, reply) {
  const check = event => {
    event.preventDefault();
    const typed = event.currentTarget.querySelector("input").value;
    if (asked.isRight(typed)) asked.reveal(`Right: ${asked.right}.`);
    else say(asked, event.currentTarget, `Not ${typed.trim() || "empty"}. ${asked.hint(typed)}`);
  };
  return h(
    "form",
    { class: "question", onsubmit: check },
    h("label", { for: id }, asked.text),
    h(
      "div",
      { class: "options" },
      h("input", {
        id,
        type: "text",
        inputmode: asked.mode ?? "decimal",
        autocomplete: "off",
        "data-key": id,
        "aria-describedby": `${id}-reply`,
      }),
      h("button", { type: "submit", "data-key": "check" }, "Check"),
      h("button", { type: "button", "data-key": "show", onclick: () => asked.reveal("Shown.") }, "Show"),
    ),
    h("p", { class: "hint" }, asked.note ?? "An answer within 1% is right."),
    reply,
  );
}

/** The number that a user typed, or null: also with a decimal comma, a minus sign, or as a fraction. */
export function parseTyped(text) {
  const plain = text
    .trim()
    .replace(",", ".")
    .replace("−", "-")
    .replace(/∞|inf(inity)?$/i, "Infinity");
  const fraction = plain.match(/^(-?[\d.]+)\s*\/\s*([\d.]+)$/);
  const typed = fraction ? Number(fraction[1]) / Number(fraction[2]) : Number(plain);
  if (/^nan$/i.test(plain)) return NaN;
  return plain === "" || Number.isNaN(typed) ? null : typed;
}

/** Whether an answer is within 1%, or the same NaN or infinity. */
export function isRight(typed, wanted) {
  if (typed === null || !Number.isFinite(wanted)) return Object.is(typed, wanted);
  return Math.abs(typed - wanted) <= 0.01 * Math.abs(wanted) + (wanted === 0 ? 1e-9 : 0);
}
