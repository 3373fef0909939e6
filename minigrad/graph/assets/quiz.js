// The quiz: a step's results stay hidden until the reader has typed one, or asked for it.

function isHidden(walk, edge) {
  return walk.quiz && Boolean(edge.pulled.whole && edge.pulled.size) && !walk.known.has(cellKey(edge));
}

/** Which element is asked for: the first that is not zero. */
function asked(edge) {
  return Math.max(
    0,
    edge.pulled.numbers.findIndex(x => x !== 0),
  );
}

function question(graph, walk, edge, actions) {
  const flat = asked(edge);
  const id = `answer-${edge.place}`;
  const which = edge.pulled.size > 1 ? `element [${unravel(flat, edge.pulled.shape).join(", ")}] of ` : "";
  const reply = h("p", { class: "reply", id: `${id}-reply`, role: "status" });
  const input = h("input", {
    id,
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    "aria-describedby": `${id}-reply`,
  });
  const answer = event => {
    event.preventDefault();
    const right = isRight(parseTyped(input.value), edge.pulled.numbers[flat]);
    if (right) actions.reveal(edge, `Right: ${formatNumber(edge.pulled.numbers[flat])}.`);
    else reply.replaceChildren(`Not ${input.value.trim() || "empty"}. `, hint(graph, edge, flat));
  };
  return h(
    "form",
    { class: "question", onsubmit: answer },
    h("label", { for: id }, `What is ${which}the gradient to ${edge.operand}? `),
    h(
      "span",
      { class: "answer" },
      input,
      h("button", { type: "submit" }, "Check"),
      h("button", { type: "button", onclick: () => actions.reveal(edge, "Shown.") }, "Show"),
    ),
    h("p", { class: "hint" }, "Within 1% is right."),
    reply,
  );
}

/** Within 1%; of what is no finite number, that itself. */
function isRight(typed, wanted) {
  if (typed === null || !Number.isFinite(wanted)) return Object.is(typed, wanted);
  return Math.abs(typed - wanted) <= 0.01 * Math.abs(wanted) + (wanted === 0 ? 1e-9 : 0);
}

/** The formula with the numbers, but for the last. */
function hint(graph, edge, flat) {
  const terms = arithmetic(graph, edge, flat);
  if (!terms) return "Look at the formula again.";
  if (!terms.length) return "No element of the result depends on it.";
  return `Hint: ${termsText(terms)}?`;
}
