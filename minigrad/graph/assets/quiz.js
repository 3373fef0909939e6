// The quiz: a step's results stay hidden until the user types one, or asks to see it. For an array whose numbers
// are not in the page, it asks for the shape.

/** The question about an input's gradient: an element, the shape, or, for an empty array, nothing. */
function askedFor(edge) {
  if (!edge.gradient.size) return null;
  return edge.pulled.whole && edge.gradient.whole ? "element" : "shape";
}

function isHidden(walk, edge) {
  return walk.quiz && askedFor(edge) !== null && !walk.known.has(cellKey(edge));
}

/** Why a step has no question, or what its questions are about. */
function quizNote(walk) {
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
  return Math.max(0, edge.gradient.numbers.findIndex(x => x !== 0));
}

/** The answer: one element of an input's gradient, after the sum over broadcast axes, or its shape. */
function question(graph, walk, edge, actions) {
  const asked = askedFor(edge) === "shape" ? aboutShape(graph, edge) : aboutElement(graph, edge);
  const id = `answer-${edge.place}`;
  const reply = h("p", { class: "reply", id: `${id}-reply`, role: "status" });
  const input = h("input", {
    id, type: "text", inputmode: asked.mode, autocomplete: "off", "aria-describedby": `${id}-reply`,
  });
  const answer = event => {
    event.preventDefault();
    if (asked.isRight(input.value)) actions.reveal(edge, `Right: ${asked.right}.`);
    else reply.replaceChildren(`Not ${input.value.trim() || "empty"}. `, asked.hint());
  };
  return h("form", { class: "question", onsubmit: answer },
    h("label", { for: id }, asked.text),
    h("span", { class: "answer" },
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
    text: `What is ${which}the gradient to ${edge.operand}${afterSum(edge)}? `, mode: "decimal",
    note: "An answer within 1% is right.", right: formatNumber(numbers[flat]),
    isRight: typed => isRight(parseTyped(typed), numbers[flat]), hint: () => hint(graph, edge, flat),
  };
}

function aboutShape(graph, edge) {
  const { shape } = edge.gradient;
  const name = nameOf(graph.vertices[edge.source]);
  return {
    text: `What is the shape of the gradient to ${edge.operand}${afterSum(edge)}? `, mode: "text",
    note: "Type its axes, such as 2, 3.", right: shapeText(shape),
    isRight: typed => (typed.match(/\d+/g) ?? []).map(Number).join() === shape.join(),
    hint: () => `Hint: a gradient has the shape of its tensor, here ${name}.`,
  };
}

function afterSum(edge) {
  const axes = `${plural(edge.summed.length, "axis", "axes")} ${edge.summed.join(", ")}`;
  return edge.summed.length ? `, summed over ${axes}` : "";
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
