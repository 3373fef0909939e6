// What if: beside the changed model, what the whole one says of the same input.

function isChanged({ options: { causal, positions, scale, memory, ablated } }) {
  return !causal || !positions || !scale || !memory || Object.values(ablated).some(heads => heads.length);
}

/** What can be taken away, and how the loss of the right answer changes. */
function whatIfMenu(e) {
  const { options, structure: { stacks } } = e;
  const off = Object.values(options.ablated).flat().length;
  const count = SWITCHES.filter(key => !options[key]).length + off;
  const one = (key, label) => checkbox(label, options[key], value => e.set({ options: { ...options, [key]: value } }), key);
  return [h("summary", { "data-key": "what-if" }, count ? `What if (${count})` : "What if"), h("div", {},
    stacks.some(stack => stack.causal) ? one("causal", "Causal mask") : null,
    e.isRecurrent ? one("memory", `Memory: the state of the ${unitOf(e)} before`) : one("positions", "Positions"),
    e.isRecurrent || stacks[0].scale === 1 ? null : one("scale", "Scaling by 1/√d_k"),
    e.isRecurrent ? null : h("button", { type: "button", class: "link", "data-key": "each-head", onclick: showEachHead }, `Each head off${off ? ` (${off} off)` : ""}`),
    e.before ? h("p", {}, "Loss ", h("b", { class: "loss-change" }, lossChange(e))) : null,
    count ? h("button", { type: "button", "data-key": "restore", onclick: () => e.set({ options: { causal: true, positions: true, scale: true, memory: true, ablated: {} } }) }, "Restore the model") : null)];
}

function closeWhatIf() {
  const menu = document.querySelector(".switches");
  if (menu?.open) menu.open = false;
}

/** The text of a probability, and what its bar shows: with the one before, if the model is changed. */
function compared(e, t, v, p) {
  if (!e.before) return [percent(p), {}];
  const was = elementOf(e.before.record.arrays.probabilities, [t, v]);
  return [`${percent(was)} → ${percent(p)}`, { before: was }];
}

/** What the whole model answers, beside the answer of the changed one. */
function answerBefore(e) {
  const text = e.before ? answerText(e, e.before.answer, bestLabelsOf(e.before.record)) : "";
  return text ? h("p", { class: "before", dir: "auto" }, `before: ${text}`) : null;
}

/** The mean loss of the right answers in a pass. */
function meanLoss(e, record) {
  const losses = e.model.losses(record, e.labels());
  const positions = e.lossPositions();
  return positions.reduce((sum, t) => sum + losses[t], 0) / positions.length;
}

/** The loss of the right answers: of the whole model, and now. */
function lossChange(e) {
  return [e.before.record, e.record].map(record => meanLoss(e, record).toFixed(4)).join(" → ");
}

/** Whose answer counts as right: while parts are off the whole model's, so that losses before and now compare. */
function rightAnswer(e) {
  const likeliest = e.structure.output.head;
  const given = e.rightClass();
  if (given >= 0) return `The right class, “${e.wordOf(given)}”, was given; the likeliest is “${e.wordOf(bestLabelsOf(e.record)[0])}”.${e.before ? " Of two numbers, the first is the whole model's." : ""}`;
  if (!e.before) return likeliest ? "No right answer is given here, so the model's own likeliest one counts as right." : "";
  const text = answerText(e, e.before.answer, e.labels());
  const right = text && !e.target ? `Right answer: “${text}”, of the whole model.` : likeliest ? "The whole model's likeliest answer counts as right." : "";
  return `${right} Of two numbers, the first is the whole model's.`;
}

/** Whether the reader has switched a head off. */
function isOff(e, path, head) {
  return (e.options.ablated[path] ?? []).includes(head);
}

/** How bright the attention of a query to a key is drawn: `bright(t, u)` of a head, or of the mean of all (null). */
function brightnessOf(e, path, head) {
  const faint = 0.2; // of a head that is off
  if (head !== null) return isOff(e, path, head) ? () => faint : () => 1;
  const off = e.options.ablated[path] ?? [];
  const weights = e.record.arrays[`${path}.weights`];
  const sum = (heads, t, u) => heads.reduce((total, i) => total + elementOf(weights, [i, t, u]), 0);
  const all = range(weights.shape[0], i => i);
  return off.length ? (t, u) => 1 - ((1 - faint) * sum(off, t, u)) / (sum(all, t, u) || 1) : () => 1;
}

function comparedHint(e) {
  return e.before ? h("p", { class: "hint" }, "Outlined, and first of the numbers: the whole model, before parts were taken away.") : null;
}
