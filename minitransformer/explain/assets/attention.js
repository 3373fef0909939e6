// Stages inside an attention: the same for self-attention and cross-attention of each layer.

function titleOfPath(path) {
  const [, stack, layer, kind] = path.match(/^(\w+)\.layers\.(\d+)\.(\w+)$/);
  const words = { self_attention: "self-attention", cross_attention: "cross-attention", feed_forward: "feed forward", residual1: "after self-attention", residual2: "2nd add & norm", residual3: "after feed forward" };
  return `${stack === "layers" ? "" : `${stack} `}layer ${Number(layer) + 1}, ${words[kind] ?? kind}`;
}

/** Which attention, and which head of it. */
function attentionChoice(e, withHead = true) {
  const { heads } = e.stackOf(e.path);
  const address = e.screen;
  return h("div", { class: "choices" },
    choice("Attention", attentionPathsHere(e).map(path => [path, titleOfPath(path)]), e.path, path => go(`${address}:${path}`)),
    withHead && heads > 1 ? h("div", { class: "together", role: "group", "aria-label": "Head" }, range(heads, i => h("button", {
      type: "button", "aria-pressed": i === e.head ? "true" : "false", "data-key": `head:${i}`, onclick: () => e.set({ head: i }),
    }, `Head ${i + 1}`))) : null);
}

function partOf(e, part) {
  return `${e.path}.${part}`;
}

function inputOf(e) {
  const node = e.plan.get(partOf(e, "q_unrotated")) ?? e.plan.get(partOf(e, "q"));
  return node.from[0];
}

function memoryOf(e) {
  return e.plan.get(partOf(e, "v")).from[0];
}

/** The head of keys and values that a head of queries uses. */
function sharedHead(e) {
  const { heads, kvHeads } = e.stackOf(e.path);
  return Math.floor(e.head / (heads / kvHeads));
}

function currentRow(e) {
  return e.path.startsWith("decoder") || e.path.startsWith("layers") ? e.step : null;
}

function qkvScreen(e) {
  const letter = e.letter ?? "q";
  const capital = letter.toUpperCase();
  const node = e.plan.get(partOf(e, `${letter}_unrotated`)) ?? e.plan.get(partOf(e, letter));
  const head = letter === "q" ? e.head : sharedHead(e);
  const meaning = {
    q: "A query says what a word looks for.", k: "A key says what a word has to offer; queries are compared with it.", v: "A value is what a word gives to those that attend to it.",
  };
  const cross = e.path.includes("cross");
  const stack = e.stackOf(e.path);
  const firstRow = node.first + head * stack.headWidth;
  return {
    thought: `Each word's vector is multiplied with three learned matrices. ${meaning[letter]}`,
    body: [
      attentionChoice(e),
      h("div", { class: "together", role: "group", "aria-label": "Query, key or value" }, ["q", "k", "v"].map(each => h("button", {
        type: "button", "aria-pressed": each === letter ? "true" : "false", "data-key": `letter:${each}`, onclick: () => e.set({ letter: each }),
      }, symbol(each.toUpperCase())))),
      cross ? h("p", { class: "hint" }, letter === "q" ? "Queries come from the decoder: the words written so far." : "Keys and values come from the encoder: the sentence that is read.") : null,
      matrix(e, node.from[0], { title: cross && letter !== "q" ? "the encoder's output" : "input of this layer", letter: "X" }),
      h("p", { class: "sign" }, "times ", symbol(`W_${capital}`), " of this head, plus a bias, ="),
      matrix(e, partOf(e, letter), { title: { q: "queries", k: "keys", v: "values" }[letter], letter: capital, head, current: letter === "q" ? currentRow(e) : null }),
      h("details", { open: e.openWeights, ontoggle: event => { e.openWeights = event.target.open; } }, h("summary", { "data-key": "weights" }, "The matrix ", symbol(`W_${capital}`), ` of head ${head + 1} (${stack.width} × ${stack.headWidth}), column by column`),
        matrix(e, node.weight, { weight: true, title: `each row of this table is a column of W_${capital}`, rowRange: [firstRow, stack.headWidth], rows: range(stack.headWidth, i => `${i}`) })),
    ],
  };
}

/** Rows of Q and columns of K that the scores are made of. */
function scoresScreen(e) {
  return {
    thought: "Each query is compared with each key: their dot product is the score. A large score means: this word matters to me.",
    body: [
      attentionChoice(e),
      h("p", { class: "formula" }, "scores = ", symbol("Q"), " ", symbol("K"), h("sup", {}, "⊤")),
      matrix(e, partOf(e, "q"), { title: "queries", letter: "Q", head: e.head, current: currentRow(e) }),
      matrix(e, partOf(e, "k"), { title: "keys", letter: "K", head: sharedHead(e) }),
      h("p", { class: "sign" }, "="),
      matrix(e, partOf(e, "scores"), { title: "scores: queries down, keys across", head: e.head, current: currentRow(e) }),
    ],
  };
}

function scaleScreen(e) {
  const { headWidth, scale } = e.stackOf(e.path);
  const unscaled = scale === 1;
  const scores = e.record.arrays[partOf(e, "scores")];
  const row = Math.max(0, currentRow(e) ?? 0);
  const values = range(scores.shape[2], u => elementOf(scores, [e.head, Math.min(row, scores.shape[1] - 1), u]));
  const keys = values.map((_, u) => e.columnLabel(partOf(e, "scores"), u));
  const both = [["without scaling", softmaxOf(values)], ["with scaling", softmaxOf(values.map(x => x * headWidth ** -0.5))]];
  const shown = largestIndices(both[1][1], MOST_TOKENS).sort((a, b) => a - b);
  return {
    thought: unscaled
      ? "This model does not scale its scores: T5 chose initial weights that make up for it."
      : `The dot product of two random vectors of width ${headWidth} has a variance of ${headWidth}. Divided by √${headWidth} = ${precise(Math.sqrt(headWidth))} it has 1 again, and softmax stays soft.`,
    body: [
      attentionChoice(e),
      h("p", { class: "formula" }, "scaled = scores / √", h("var", {}, "d"), h("sub", {}, "k")),
      matrix(e, partOf(e, "scores"), { title: "scores", head: e.head }),
      h("p", { class: "sign" }, unscaled || !e.options.scale ? "times 1 =" : `divided by ${precise(1 / scale)} =`),
      matrix(e, partOf(e, "scaled"), { title: "scaled scores", head: e.head }),
      h("section", {}, h("h3", {}, `What “${e.rowLabel(partOf(e, "scores"), Math.min(row, scores.shape[1] - 1))}” would attend to`),
        h("div", { class: "columns" }, both.map(([name, p]) => h("div", {}, h("h4", {}, name), bars(shown.map(u => [keys[u], p[u], percent(p[u])]), name)))),
        h("p", { class: "hint" }, `${shown.length < keys.length ? `The ${shown.length} largest of ${keys.length}` : "All keys"}, before any mask. Where one weight is 1 and the others 0, softmax has no gradient, and nothing is learned.`)),
    ],
  };
}

function softmaxOf(values) {
  const largest = Math.max(...values);
  const powers = values.map(x => Math.exp(x - largest));
  const total = powers.reduce((sum, x) => sum + x, 0);
  return powers.map(x => x / total);
}

function maskScreen(e) {
  const node = e.plan.get(partOf(e, "masked"));
  const masks = node.causal && e.options.causal;
  return {
    thought: node.causal
      ? "A word may not look at later words: it is to predict them. Their scores become −∞."
      : e.path.includes("cross") ? "Cross-attention hides nothing: each new word may look at the whole sentence." : "The encoder hides nothing: each word sees all others, before and after it.",
    body: [
      attentionChoice(e),
      node.causal && !masks ? h("p", { class: "note" }, "The mask is switched off: the model sees the words that it is to predict. Trained so, it would learn to copy, and could not write.") : null,
      matrix(e, partOf(e, "scaled"), { title: "scaled scores", head: e.head, current: currentRow(e) }),
      node.from[1] ? [h("p", { class: "sign" }, "+"), matrix(e, node.from[1], { title: "bias of the distance", head: e.head })] : null,
      h("p", { class: "sign" }, masks ? "later words hidden:" : "nothing hidden:"),
      matrix(e, partOf(e, "masked"), { title: "masked scores", head: e.head, current: currentRow(e) }),
      node.causal ? checkbox("Causal mask", e.options.causal, causal => e.set({ options: { ...e.options, causal } }), "causal here") : null,
    ],
  };
}

function softmaxScreen(e) {
  return {
    thought: "Softmax makes weights of the scores: all positive, and each row adds up to 1.",
    body: [
      attentionChoice(e),
      h("p", { class: "formula" }, symbol("w_ij"), " = exp(", symbol("s_ij"), ") / Σ", h("sub", {}, "k"), " exp(", symbol("s_ik"), ")"),
      matrix(e, partOf(e, "masked"), { title: "scores, scaled and masked", head: e.head, current: currentRow(e) }),
      h("p", { class: "sign" }, "softmax of each row ="),
      matrix(e, partOf(e, "weights"), { title: "attention weights", head: e.head, current: currentRow(e) }),
      rowSums(e),
    ],
  };
}

function rowSums(e) {
  const { data, shape } = e.record.arrays[partOf(e, "weights")];
  const [, rows, columns] = shape;
  const sums = range(rows, t => range(columns, u => data[(e.head * rows + t) * columns + u]).reduce((sum, x) => sum + x, 0));
  return h("p", { class: "sums" }, "Sums of the rows: ", sums.map((sum, t) => [t ? ", " : "", h("span", { class: "row-sum" }, sum.toFixed(3))]));
}

function weightedSumScreen(e) {
  return {
    thought: "Each word takes the values of the others, as much of each as its weight says. So words become vectors that know their context.",
    body: [
      attentionChoice(e),
      matrix(e, partOf(e, "weights"), { title: "attention weights", head: e.head, current: currentRow(e) }),
      h("p", { class: "sign" }, "times"),
      matrix(e, partOf(e, "v"), { title: "values", letter: "V", head: sharedHead(e) }),
      h("p", { class: "sign" }, "="),
      matrix(e, partOf(e, "heads"), { title: `output of head ${e.head + 1}`, head: e.head, current: currentRow(e) }),
    ],
  };
}

/** The four steps at once, for one query. */
function attentionScreen(e) {
  const weights = e.record.arrays[partOf(e, "weights")];
  const rows = weights.shape[1];
  const t = Math.min(e.query ?? currentRow(e) ?? 0, rows - 1);
  const name = partOf(e, "weights");
  const keys = range(weights.shape[2], u => e.columnLabel(name, u));
  const read = part => range(keys.length, u => elementOf(e.record.arrays[partOf(e, part)], [e.head, t, u]));
  const [scores, scaled, masked, shares] = ["scores", "scaled", "masked", "weights"].map(read);
  const isMasked = e.plan.get(partOf(e, "masked")).causal;
  const number = (part, u, x) => h("td", {}, h("button", {
    type: "button", class: "link", "data-key": `${part}:${u}`, "aria-label": `${part} of ${keys[u]}: ${inTable(x, 3)}`,
    onclick: () => e.set({ cell: { name: partOf(e, part), index: [e.head, t, u], gradient: false, weight: false } }),
  }, inTable(x, 3)));
  return {
    thought: "Attention in four steps: compare the query with each key, scale, softmax, and take the weighted sum of the values.",
    body: [
      attentionChoice(e),
      h("p", { class: "formula" }, "Attention(Q, K, V) = softmax(Q K", h("sup", {}, "⊤"), " / √d", h("sub", {}, "k"), ") V"),
      h("p", { class: "label" }, "The word that asks:"),
      wordRow(e.tokensOf(e.sideOfRows(name)), t, "Query", i => e.set({ query: i })),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Four steps" }, h("table", { class: "steps" },
        h("thead", {}, h("tr", {}, ["key", "1. q · k", "2. scaled", isMasked ? "masked" : null, "3. softmax", ""].filter(text => text !== null).map(text => (text ? h("th", { scope: "col" }, text) : h("td", {}))))),
        h("tbody", {}, keys.map((key, u) => {
          const bar = h("span", { class: "bar" });
          bar.style.width = `${100 * shares[u]}%`;
          return h("tr", {}, h("th", { scope: "row" }, key), number("scores", u, scores[u]), number("scaled", u, scaled[u]), isMasked ? number("masked", u, masked[u]) : null, number("weights", u, shares[u]), h("td", { class: "track" }, bar));
        })))),
      h("p", { class: "label" }, `4. The weighted sum of the values is what “${e.rowLabel(name, t)}” takes away from here:`),
      matrix(e, partOf(e, "heads"), { title: `output of head ${e.head + 1}`, head: e.head, current: t }),
      h("p", {}, "Each step by itself: ", [["qkv", "Q, K, V"], ["scores", "scores"], ["scale", "scaling"], ["mask", "mask"], ["softmax", "softmax"], ["weighted-sum", "weighted sum"]].map(([to, text], i) => [i ? " · " : "", h("a", { href: `#${to}:${e.path}` }, text)])),
    ],
  };
}

function headsScreen(e) {
  const { heads, headWidth } = e.stackOf(e.path);
  const weights = e.record.arrays[partOf(e, "weights")];
  const off = e.options.ablated[e.path] ?? [];
  const toggle = i => {
    const next = off.includes(i) ? off.filter(each => each !== i) : [...off, i];
    e.set({ options: { ...e.options, ablated: { ...e.options.ablated, [e.path]: next } } });
  };
  const card = i => h("div", { class: i === e.head ? "head current" : "head" },
    h("button", { type: "button", class: "plain", "data-key": `card:${i}`, "aria-pressed": i === e.head ? "true" : "false", onclick: () => e.set({ head: i }) }, `Head ${i + 1}`, heatPicture(weights, i, `Weights of head ${i + 1}`)),
    h("p", { class: "hint" }, headSummary(weights, i, e.path.includes("self"))),
    checkbox("on", !off.includes(i), () => toggle(i), `head ${i}`));
  return {
    thought: `${heads} heads attend at the same time, each in ${headWidth} of the ${heads * headWidth} dimensions, and each to something else. Side by side and mixed by W_O, they are the output.`,
    body: [
      attentionChoice(e, false),
      h("div", { class: "heads" }, range(heads, card)),
      arcs(weights, e.head, e.tokensOf(e.sideOfRows(partOf(e, "weights"))), e.tokensOf(e.path.includes("cross") ? "source" : e.sideOfRows(partOf(e, "weights")))),
      matrix(e, partOf(e, "concat"), { title: "heads side by side", current: currentRow(e) }),
      h("p", { class: "sign" }, "times ", symbol("W_O"), ", plus a bias, ="),
      matrix(e, partOf(e, "output"), { title: "output of the attention", current: currentRow(e) }),
    ],
  };
}

/** How far a head looks, and to how many words. */
function headSummary(weights, head, isSelf) {
  const [, rows, columns] = weights.shape;
  let entropy = 0;
  let distance = 0;
  for (let t = 0; t < rows; t++) for (let u = 0; u < columns; u++) {
    const w = elementOf(weights, [head, t, u]);
    if (w > 0) entropy -= w * Math.log(w);
    distance += w * Math.abs(t - u);
  }
  const words = `about ${Math.exp(entropy / rows).toFixed(1)} words at once`;
  return isSelf ? `${words}, ${(distance / rows).toFixed(1)} away` : words;
}

function alignmentScreen(e) {
  const paths = e.attentionPaths().filter(path => path.includes("cross"));
  const path = paths.includes(e.alignPath) ? e.alignPath : paths.at(-1); // the last layer aligns best
  const name = `${path}.weights`;
  const heads = e.stackOf(path).heads;
  const mean = meanOfHeads(e.record.arrays[name]);
  const isMean = e.alignHead === undefined || e.alignHead >= heads;
  const array = isMean ? mean : e.record.arrays[name];
  const head = isMean ? 0 : e.alignHead;
  const [rows, columns] = [e.tokensOf("target"), e.tokensOf("source")];
  const said = e.labels().map(id => shownToken(e.tokenOf(id)));
  return {
    thought: "Cross-attention aligns the two languages: for each word that is written, it looks at the words that it translates. Nobody told it which.",
    body: [
      h("div", { class: "choices" }, choice("Layer", paths.map(each => [each, titleOfPath(each)]), path, each => go(`alignment:${each}`)),
        choice("Head", [["mean", "mean of all heads"], ...range(heads, i => [`${i}`, `head ${i + 1}`])], isMean ? "mean" : `${head}`, value => e.set({ alignHead: value === "mean" ? undefined : Number(value) }))),
      arcs(array, head, said, columns),
      h("figure", {}, h("figcaption", {}, "Down: the word that is written, and what the decoder has read. Across: the sentence."),
        plainTable(e, {
          title: "Alignment", rows: said, columns, heads: t => [`after ${rows[t]}`], value: (t, u) => elementOf(array, [head, t, u]),
          text: x => x.toFixed(3), look: { largest: 1, isProbability: true },
        })),
    ],
  };
}

function meanOfHeads({ data, shape: [heads, rows, columns] }) {
  const mean = new Float32Array(rows * columns);
  data.forEach((x, i) => { mean[i % (rows * columns)] += x / heads; });
  return { shape: [1, rows, columns], data: mean };
}
