// What if: beside the changed model, what the whole one says of the same input.

function isChanged({ options: { causal, positions, scale, memory, ablated } }) {
  return !causal || !positions || !scale || !memory || Object.values(ablated).some(heads => heads.length);
}

/** The whole model's pass over the same tokens, and its own answer; null if nothing is taken away. */
function beforeOf(e) {
  if (!isChanged(e)) return null;
  if (e.before?.record.now !== e.record) {
    const { source, target } = e.record;
    const record = { ...e.model.run({ source, target }, {}), now: e.record };
    const writes = !e.structure.output.head;
    const answer = e.isPair ? e.model.generate(source, {}, {}) : writes ? e.model.generate(source.slice(0, e.prompt), { maxNew: e.mostWritten(source.slice(0, e.prompt)) }, {}) : null;
    e.before = { record, answer, labels: bestLabelsOf(record) };
  }
  return e.before;
}

/** The text of a probability, and what its bar shows: with the one before, if the model is changed. */
function compared(e, t, v, p) {
  const before = beforeOf(e)?.record.arrays.probabilities;
  if (!before) return [percent(p), {}];
  const was = elementOf(before, [t, v]);
  return [`${percent(was)} → ${percent(p)}`, { before: was }];
}

/** What the whole model answers, beside the answer of the changed one. */
function answerBefore(e) {
  const before = beforeOf(e);
  const text = before ? answerText(e, before.answer, before.labels) : "";
  return text ? h("p", { class: "before", dir: "auto" }, `before: ${text}`) : null;
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
  return isChanged(e) ? h("p", { class: "hint" }, "Outlined, and first of the numbers: the whole model, before parts were taken away.") : null;
}
