// The quiz: a step's results stay hidden until the user types one, or asks to see it. For an array whose numbers
// are not in the page, it asks for the shape. Beside that, questions with choices ask for the reasons.

import { nameOf, shapeText } from "./data.js";
import { plural } from "./elements.js";
import { formatNumber } from "./numbers.js";
import { askedFor } from "./progress.js";
import { isRight, parseTyped } from "./question.js";
import { arithmetic, arrivals, summedFrom, termsText, unravel } from "./walk.js";

/** The element of the question: the first that is not zero. */
function askedElement(edge) {
  return Math.max(
    0,
    edge.gradient.numbers.findIndex(x => x !== 0),
  );
}

/** About an input's gradient: questions with choices, then one element, after the sum over broadcast axes, or the shape. */
export function questions(graph, edge) {
  const makers = [aboutDirection, aboutUses, aboutBroadcast, aboutRelu];
  makers.push(askedFor(edge) === "shape" ? aboutShape : aboutElement);
  return makers.map(ask => ask(graph, edge)).filter(Boolean);
}

function aboutElement(graph, edge) {
  const flat = askedElement(edge);
  const { numbers, shape, size } = edge.gradient;
  const which = size > 1 ? `element [${unravel(flat, shape).join(", ")}] of ` : "";
  return {
    text: `What is ${which}the gradient to ${edge.operand}${afterSum(edge)}? `,
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
    note: "Type its axes, such as 2, 3. This page does not have all numbers of large arrays (trace(whole=…) keeps more).",
    right: shapeText(shape),
    isRight: typed => (typed.match(/\d+/g) ?? []).map(Number).join() === shape.join(),
    hint: () => `Hint: a gradient has the shape of its tensor, here ${name}.`,
  };
}

function afterSum(edge) {
  const axes = `${plural(edge.summed.length, "axis", "axes")} ${edge.summed.join(", ")}`;
  return edge.summed.length ? `, summed over ${axes}` : "";
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
