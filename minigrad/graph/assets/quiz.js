// The quiz: a step's results stay hidden until the user types one, or asks to see it. For an array whose numbers
// are not in the page, it asks for the shape. Beside that, questions with choices ask for the reasons.

import { isRight, parseTyped } from "./answers.js";
import { nameOf, shapeText } from "./data.js";
import { h } from "./dom.js";
import { plural } from "./elements.js";
import { formatNumber } from "./numbers.js";
import { askedFor, opAt } from "./progress.js";
import { arithmetic, arrivals, summedFrom, termsText, unravel } from "./walk.js";

/** Why a step has no question, or what its questions are about. */
export function quizNote(walk) {
  if (!walk.quiz) return null;
  const edges = (opAt(walk)?.inputs ?? []).filter(edge => edge.gradient);
  const asked = edges.map(askedFor);
  if (walk.step === 0) return "Quiz: the first question comes with the next step.";
  if (!opAt(walk)) return "Quiz: no question here; all gradients have arrived.";
  if (!edges.length) return "Quiz: no question at this step; none of its inputs needs a gradient.";
  if (!asked.some(Boolean)) return "Quiz: no question at this step; its gradients are empty.";
  if (asked.includes("shape"))
    return "Quiz: this page does not have all numbers of large arrays, so it asks for their shapes (trace(whole=…) keeps more).";
  return null;
}

/** The element of the question: the first that is not zero. */
function askedElement(edge) {
  return Math.max(
    0,
    edge.gradient.numbers.findIndex(x => x !== 0),
  );
}

/** The answer: one element of an input's gradient, after the sum over broadcast axes, or its shape. */
export function question(graph, walk, edge, actions) {
  const asked = askedFor(edge) === "shape" ? aboutShape(graph, edge) : aboutElement(graph, edge);
  const id = `answer-${edge.place}`;
  const reply = h("p", { class: "reply", id: `${id}-reply`, role: "status" });
  const input = h("input", {
    id,
    type: "text",
    inputmode: asked.mode,
    autocomplete: "off",
    "aria-describedby": `${id}-reply`,
  });
  const answer = event => {
    event.preventDefault();
    if (asked.isRight(input.value)) actions.reveal(edge, `Right: ${asked.right}.`);
    else reply.replaceChildren(`Not ${input.value.trim() || "empty"}. `, asked.hint());
  };
  return h(
    "form",
    { class: "question", onsubmit: answer },
    h("label", { for: id }, asked.text),
    h(
      "span",
      { class: "answer" },
      input,
      h("button", { type: "submit" }, "Check"),
      h("button", { type: "button", onclick: () => actions.reveal(edge, "Shown.") }, "Show"),
    ),
    h("p", { class: "hint" }, asked.note),
    reply,
  );
}

function aboutElement(graph, edge) {
  const flat = askedElement(edge);
  const { numbers, shape, size } = edge.gradient;
  const which = size > 1 ? `element [${unravel(flat, shape).join(", ")}] of ` : "";
  return {
    text: `What is ${which}the gradient to ${edge.operand}${afterSum(edge)}? `,
    mode: "decimal",
    note: "An answer within 1% is right.",
    right: formatNumber(numbers[flat]),
    isRight: typed => isRight(parseTyped(typed), numbers[flat]),
    hint: () => hint(graph, edge, flat),
  };
}

function aboutShape(graph, edge) {
  const { shape } = edge.gradient;
  const name = nameOf(graph.vertices[edge.source]);
  return {
    text: `What is the shape of the gradient to ${edge.operand}${afterSum(edge)}? `,
    mode: "text",
    note: "Type its axes, such as 2, 3.",
    right: shapeText(shape),
    isRight: typed => (typed.match(/\d+/g) ?? []).map(Number).join() === shape.join(),
    hint: () => `Hint: a gradient has the shape of its tensor, here ${name}.`,
  };
}

function afterSum(edge) {
  const axes = `${plural(edge.summed.length, "axis", "axes")} ${edge.summed.join(", ")}`;
  return edge.summed.length ? `, summed over ${axes}` : "";
}

// ---------------------------------------------------------------- questions to understand

/** Questions with choices: which way a number will move, why gradients are added, and what relu lets through. */
export function ideas(graph, edge) {
  return [aboutDirection, aboutUses, aboutBroadcast, aboutRelu].map(ask => ask(graph, edge)).filter(Boolean);
}

/** Of the element with the largest gradient, if no other use adds to it. */
function aboutDirection(graph, edge) {
  const { numbers, whole, shape } = edge.gradient;
  const source = graph.vertices[edge.source];
  if (!whole || !numbers?.length || arrivals(graph, edge.source, edge.result).length > 1) return null;
  const sizes = numbers.map(x => (Number.isFinite(x) ? Math.abs(x) : 0));
  const flat = sizes.indexOf(Math.max(...sizes));
  const target = graph.vertices[edge.target];
  const isLogit = target.name.includes("cross_entropy") && edge.place === 0;
  const at = numbers.length > 1 ? ` [${unravel(flat, shape).join(", ")}]` : "";
  const what = isLogit ? `this logit, ${nameOf(source)}${at},` : `${nameOf(source)}${at}`;
  const sign = Math.sign(numbers[flat]);
  const why = sign
    ? `Its gradient is ${sign > 0 ? "positive" : "negative"}, and a step goes against the gradient` +
      (isLogit ? ": of the right answer up, of the others down." : ".")
    : "Its gradient is 0.";
  return {
    text: `Which way will ${what} move to make the loss smaller?`,
    choices: ["up", "down", "it stays"],
    right: sign < 0 ? 0 : sign > 0 ? 1 : 2,
    why,
    hint: "A gradient is the slope of the loss: a step goes the other way.",
  };
}

function aboutUses(graph, edge) {
  const uses = arrivals(graph, edge.source, edge.result).length;
  if (uses < 2) return null;
  return {
    text: `${nameOf(graph.vertices[edge.source])} is used ${uses} times. What becomes of its ${uses} gradients?`,
    choices: ["they are averaged", "they are added", "the largest is kept"],
    right: 1,
    why: "A change of the value changes the loss through each use, and the changes add up.",
    hint: "Think of a small change of the value: through how many uses does the loss change?",
  };
}

function aboutBroadcast(graph, edge) {
  if (!edge.summed.length) return null;
  return {
    text: `Why is the gradient to ${edge.operand} a sum${afterSum(edge).replace(", summed", "")}?`,
    choices: ["to keep it small", "the loss is a mean", "one value was used in many places"],
    right: 2,
    why: "Forward copied the value along that axis; each copy sends back a gradient.",
    hint: "Compare the shapes going forward: how often was each element used?",
  };
}

function aboutRelu(graph, edge) {
  const target = graph.vertices[edge.target];
  const { numbers, whole, shape } = graph.vertices[edge.source].values[edge.result];
  const flat = target.name === "relu" && whole ? numbers.findIndex(x => x < 0) : -1;
  if (flat < 0) return null;
  const at = numbers.length > 1 ? `[${unravel(flat, shape).join(", ")}] ` : "";
  return {
    text: `Element ${at}of the input is negative. How much of its upstream gradient passes through relu?`,
    choices: ["all of it", "half of it", "nothing"],
    right: 2,
    why: "There relu is flat: a small change of the input changes nothing.",
    hint: "What is relu's slope left of 0?",
  };
}

/** A question with its choices as buttons; the reply says why. */
export function choiceQuestion(asked, id) {
  const reply = h("p", { class: "reply", role: "status" });
  const buttons = asked.choices.map((choice, i) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: ({ currentTarget }) => {
          for (const button of buttons) button.setAttribute("aria-pressed", String(button === currentTarget));
          const isRight = i === asked.right;
          reply.classList.toggle("right", isRight);
          reply.replaceChildren(isRight ? `Right. ${asked.why}` : `No. ${asked.hint}`);
        },
      },
      choice,
    ),
  );
  return h(
    "div",
    { class: "idea", role: "group", "aria-labelledby": id },
    h("p", { id }, asked.text),
    h("span", { class: "together" }, buttons),
    reply,
  );
}

const LONG_HINT = 40; // products

/** The formula with its numbers, without the result; after a broadcast, with all terms of the sum. */
function hint(graph, edge, flat) {
  const places = edge.summed.length ? summedFrom(edge, flat) : [flat];
  const parts = places.map(place => arithmetic(graph, edge, place));
  if (!parts.every(Boolean)) return "Look at the formula again.";
  const terms = parts.flat();
  if (!terms.length) return "No element of the result depends on it.";
  if (terms.length > LONG_HINT) return `Hint: it is a sum of ${terms.length} products.`;
  return `Hint: ${termsText(terms)}?`;
}
