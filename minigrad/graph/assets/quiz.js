// The quiz: a step's results stay hidden until the user types one, or asks to see it.

function isHidden(walk, edge) {
  const canAsk = edge.pulled.whole && edge.gradient.whole && edge.gradient.size;
  return walk.quiz && Boolean(canAsk) && !walk.known.has(cellKey(edge));
}

/** Which element is asked for: the first that is not zero. */
function askedElement(edge) {
  return Math.max(0, edge.gradient.numbers.findIndex(x => x !== 0));
}

/** What an input's gradient is here, after the sum over what was broadcast. */
function question(graph, walk, edge, actions) {
  const flat = askedElement(edge);
  const { numbers, shape, size } = edge.gradient;
  const id = `answer-${edge.place}`;
  const which = size > 1 ? `element [${unravel(flat, shape).join(", ")}] of ` : "";
  const axes = `${plural(edge.summed.length, "axis", "axes")} ${edge.summed.join(", ")}`;
  const after = edge.summed.length ? `, summed over ${axes}` : "";
  const reply = h("p", { class: "reply", id: `${id}-reply`, role: "status" });
  const input = h("input", {
    id, type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": `${id}-reply`,
  });
  const answer = event => {
    event.preventDefault();
    const right = isRight(parseTyped(input.value), numbers[flat]);
    if (right) actions.reveal(edge, `Right: ${formatNumber(numbers[flat])}.`);
    else reply.replaceChildren(`Not ${input.value.trim() || "empty"}. `, hint(graph, edge, flat));
  };
  return h("form", { class: "question", onsubmit: answer },
    h("label", { for: id }, `What is ${which}the gradient to ${edge.operand}${after}? `),
    h("span", { class: "answer" },
      input,
      h("button", { type: "submit" }, "Check"),
      h("button", { type: "button", onclick: () => actions.reveal(edge, "Shown.") }, "Show"),
    ),
    h("p", { class: "hint" }, "An answer within 1% is right."),
    reply,
  );
}

/** Whether an answer is within 1%, or the same NaN or infinity. */
function isRight(typed, wanted) {
  if (typed === null || !Number.isFinite(wanted)) return Object.is(typed, wanted);
  return Math.abs(typed - wanted) <= 0.01 * Math.abs(wanted) + (wanted === 0 ? 1e-9 : 0);
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
