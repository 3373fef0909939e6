// Stages of the backward pass: the loss, what each loss depends on, and how far the gradients reach.

function lossScreen(e) {
  const { losses, loss } = e.gradients();
  const labels = e.labels();
  const { data, shape } = e.record.arrays.probabilities;
  const chosen = e.lossPositions();
  const toggle = t => {
    const next = chosen.includes(t) ? chosen.filter(each => each !== t) : [...chosen, t].sort((a, b) => a - b);
    e.set({ chosen: next.length ? next : null });
  };
  const words = e.tokensOf(e.isPair ? "target" : "source");
  const right = answerUnit(e);
  return {
    thought: `The loss of each prediction is −log of the probability that the right ${right} got. Training moves every weight a little against the gradient of the mean loss.`,
    body: [
      h("p", { class: "formula" }, `loss = −log p(right ${right}),   ∂loss / ∂logits = (p − y) / N`),
      e.structure.output.head ? h("p", { class: "hint" }, "No right answer is given here, so the model's own likeliest one counts as right.") : null,
      h("div", { class: "halves" }, h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Losses" }, h("table", { class: "steps" },
        h("thead", {}, h("tr", {}, ["counts", e.structure.output.head ? "at" : "after", `right ${right}`, "its probability", "−log p"].map(text => h("th", { scope: "col" }, text)))),
        h("tbody", {}, labels.map((id, t) => h("tr", { class: t === e.step ? "current" : null },
          h("td", {}, h("input", { type: "checkbox", checked: chosen.includes(t), "aria-label": `The loss of ${words[t]} counts`, "data-key": `counts:${t}`, onchange: () => toggle(t) })),
          h("th", { scope: "row" }, words[t] ?? "input"), h("td", { class: "word" }, e.labelShown(t)), h("td", {}, percent(data[t * shape[1] + id])), h("td", { class: "loss" }, losses[t].toFixed(4))))))),
      h("p", {}, `Mean of ${chosen.length}: `, h("b", { class: "mean-loss" }, precise(loss))),
      e.isPair ? targetForm(e) : null),
      h("section", {}, h("h3", {}, "Where the gradient starts"), h("p", {}, `At the logits: a step against the gradient raises the logit of the right ${right}, whose gradient is negative, and lowers each of the others in proportion to its probability.`), stepChoice(e), startBars(e))),
    ],
  };
}

/** Another right answer: the model is asked how likely it finds that. */
function targetForm(e) {
  return h("form", { class: "target", onsubmit: event => {
    event.preventDefault();
    e.set({ target: new FormData(event.target).get("target").trim() || null });
  } }, h("label", {}, "The right answer ", h("input", { name: "target", value: e.target ?? "", placeholder: e.model.decode(e.labels()), "data-key": "target", dir: "auto", autocomplete: "off" })),
  h("button", { type: "submit", "data-key": "target-go" }, "Use it"), unknownNote(e), h("span", { class: "hint" }, "Left empty: the model's own answer. Give another one, and see how the gradients grow."));
}

/** Words of the answer that the model does not know. */
function unknownNote(e) {
  const { unknown, pieces } = e.target ? e.model.tokenize(e.target) : { unknown: [] };
  return unknown.length ? h("span", { class: "note" }, `Not in the vocabulary: ${unknown.map(i => pieces?.[i] ?? "?").join(", ")}`) : null;
}

function startBars(e) {
  const t = stepRow(e);
  const g = rowOf(e.gradients().activations.logits, t);
  const order = Array.from(g.keys()).sort((a, b) => Math.abs(g[b]) - Math.abs(g[a])).slice(0, 8);
  const largest = Math.max(...order.map(v => Math.abs(g[v]))) || 1;
  return signedBars(order.map(v => [shownToken(e.wordOf(v)), g[v] / largest, inTable(g[v], decimalsFor(largest)), { chosen: g[v] < 0 }]), "Gradient of the logits");
}

const MOST_PULLS = 12; // losses of a long text that are shown at once: each is a backward pass

/** For the loss of each prediction: how long the gradient is at each token that was read. */
function pullScreen(e) {
  const inputs = e.structure.stacks.map(stack => `${stack.name}.input`);
  const labels = e.labels();
  const count = e.record.arrays.logits.shape[0];
  const words = e.tokensOf(e.isPair ? "target" : "source");
  const most = count > 24 ? MOST_PULLS : count;
  const top = windowStart(e, `rows ${count}`, count - most);
  const passes = range(most, i => e.model.backward(e.record, { labels, positions: [top + i], weights: false }));
  return {
    thought: "Each row is the loss of one prediction alone. Its numbers are the lengths of its gradients at the input vectors: the longer the gradient, the more a small change of that input changes this loss.",
    body: inputs.map((name, i) => {
      const columns = e.tokensOf(e.sideOfRows(name));
      const sizes = passes.map(({ activations }) => columns.map((_, u) => norm(rowOf(activations[name], u))));
      const largest = largestOf(sizes.flat());
      return h("figure", {}, h("figcaption", {}, e.isPair ? ["At the inputs of the encoder", "At the inputs of the decoder"][i] : "At the inputs"),
        plainTable(e, {
          title: `Pull on ${name}`, corner: "loss of", rows: range(count, t => shownToken(e.wordOf(labels[t]) ?? words[t])), columns, most,
          value: (t, u) => sizes[t - top][u], text: x => inTable(x, decimalsFor(largest)), look: { largest },
        }));
    }),
  };
}

/** How long the gradient is at each array of the main path, from the loss back to the input. */
function backwardScreen(e) {
  const { activations, weights } = e.gradients();
  const way = [...e.plan.values()].filter(node => /(\.sum|\.input|\.output|logits|\.scaled|\.embedded)$/.test(node.name) && !/attention\.scaled|norm\.output|layers\.\d+\.\w+\.output/.test(node.name) && node.name in activations).reverse();
  const longest = Math.max(...way.map(node => norm(activations[node.name].data)));
  const names = Object.keys(weights).filter(name => norm(weights[name].data) > 0);
  const layer = e.structure.stacks[0].norm.kind === "layer";
  const heaviest = names.map(name => [name, norm(weights[name].data)]).sort((a, b) => b[1] - a[1]);
  return {
    thought: "The gradient passes through the same steps in reverse: each step passes on what arrives, times its own derivative. The residual connections are the direct path.",
    body: [
      e.backward ? h("p", { class: "hint" }, "Each array on the other stages has its gradient beside it.") : h("p", { class: "hint" }, "Switch on “Gradients” (key G), and each array on the other stages has its gradient beside it."),
      h("h3", {}, "Length of the gradient, from the loss to the input"),
      bars(way.map(node => [wayLabel(node.name), norm(activations[node.name].data) / longest, precise(norm(activations[node.name].data))]), "Lengths of gradients"),
      h("h3", {}, "Rules that it passes through"),
      h("ul", { class: "rules" },
        h("li", {}, h("b", {}, "Cross-entropy: "), "(p − y) / N"),
        h("li", {}, h("b", {}, "Softmax: "), "w · (g − Σ w g)"),
        layer
          ? h("li", {}, h("b", {}, "Layer norm: "), "(g − mean(g) − x̂ · mean(g x̂)) / σ, for the gradient g of the normalized row x̂: whatever would only shift or stretch the row is removed")
          : h("li", {}, h("b", {}, "RMSNorm: "), "(g − x̂ · mean(g x̂)) / rms, for the gradient g of the normalized row x̂: whatever would only stretch the row is removed"),
        h("li", {}, h("b", {}, "Matrix product Y = X W: "), "∂X = ∂Y Wᵀ, ∂W = Xᵀ ∂Y"),
        h("li", {}, h("b", {}, "Sum: "), "passed on unchanged to both terms")),
      example(e),
      h("h3", {}, "Weights with the longest gradients"),
      bars(heaviest.slice(0, 12).map(([name, size]) => [name, size / heaviest[0][1], precise(size)]), "Gradients of weights"),
    ],
  };
}

/** `decoder layer 2, residual 1` of `decoder.layers.1.residual1.sum`. */
function wayLabel(name) {
  const [, stack, layer, number] = name.match(/^(\w+)\.layers\.(\d+)\.residual(\d)/) ?? [];
  return stack ? `${stack} ${Number(layer) + 1}, residual ${number}` : name.replace(".", ": ");
}

/** The rules with numbers: places to go to. */
function example(e) {
  const path = e.path;
  const norm_ = [...e.plan.keys()].find(name => name.endsWith("norm.normalized"));
  const sum = e.plan.get(norm_).from[0];
  const t = stepRow(e);
  const places = [
    ["cross-entropy", { name: "logits", index: [t, e.labels()[t]], gradient: true }],
    ["softmax", { name: `${path}.masked`, index: [e.head, 0, 0], gradient: true }],
    [e.structure.stacks[0].norm.kind === "layer" ? "layer norm" : "RMSNorm", { name: sum, index: [0, 0], gradient: true }],
    ["a weight", { name: `${path}.out_proj.weight`, index: [0, 0], gradient: true, weight: true }],
  ];
  return h("p", {}, "With numbers: ", places.map(([label, place]) => h("button", { type: "button", "data-key": `rule:${label}`, onclick: () => e.set({ cell: { weight: false, ...place } }) }, label)));
}
