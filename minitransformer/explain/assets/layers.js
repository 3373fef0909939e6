// Stages around the attention: add & norm, feed forward, and the layers one after another.

function addNormScreen(e) {
  const path = e.residual;
  const stack = e.stackOf(path);
  const sum = e.plan.get(`${path}.sum`);
  const [x, f] = sum.from;
  const kind = stack.norm.kind === "layer" ? "Layer norm" : "RMS norm";
  const order = stack.normFirst
    ? [norms(e, path), h("p", { class: "sign" }, "goes through the sub-layer; what comes out is added to x:"), matrix(e, x, { title: "x" }), h("p", { class: "sign" }, "+"), matrix(e, f, { title: describe(f) }), h("p", { class: "sign" }, "="), matrix(e, `${path}.sum`, { title: "x + f(norm(x))" })]
    : [matrix(e, x, { title: "x, what came in" }), h("p", { class: "sign" }, "+"), matrix(e, f, { title: `f(x), ${describe(f)}` }), h("p", { class: "sign" }, "="), matrix(e, `${path}.sum`, { title: "x + f(x)" }), norms(e, path)];
  return {
    thought: stack.normFirst
      ? `Each sub-layer reads a normalized copy of x, and adds what it found. ${kind} gives each row the same size.`
      : `What a sub-layer finds is added to what came in: nothing is lost, and gradients have a straight way back. ${kind} then gives each row the same size.`,
    body: [placeChoice(e, "residual", residualPaths(e)), h("p", { class: "formula" }, stack.normFirst ? "x + f(norm(x))" : "norm(x + f(x))"), order],
  };
}

function norms(e, path) {
  const stack = e.stackOf(path);
  const part = name => `${path}.norm.${name}`;
  const layer = stack.norm.kind === "layer";
  return [
    h("p", { class: "formula" }, layer ? "norm(x) = (x − mean) / √(variance + ε) · gain + bias" : "norm(x) = x / √(mean of x² + ε) · gain"),
    h("div", { class: "columns" }, layer ? matrix(e, part("mean"), { title: "mean", columns: ["mean"] }) : null, matrix(e, part("rstd"), { title: "1 / √(variance + ε)", columns: ["1/σ"] })),
    matrix(e, part("normalized"), { title: "normalized: mean 0, variance 1" }),
    matrix(e, part("output"), { title: "times gain, plus bias" }),
  ];
}

function residualPaths(e) {
  return [...e.plan.keys()].filter(name => /residual\d\.sum$/.test(name)).map(name => name.replace(/\.sum$/, ""));
}

function forwardPaths(e) {
  return [...e.plan.keys()].filter(name => name.endsWith("feed_forward.hidden")).map(name => name.replace(/\.hidden$/, ""));
}

function placeChoice(e, key, paths) {
  return h("div", { class: "choices" }, choice("Layer", paths.map(path => [path, titleOfResidual(e, path)]), e[key], path => go(`${e.screen}:${path}`)));
}

function titleOfResidual(e, path) {
  const number = path.match(/residual(\d)$/)?.[1];
  if (!number) return titleOfPath(path);
  const last = e.stackOf(path).cross ? "3" : "2";
  const after = number === last ? "feed forward" : number === "1" ? "self-attention" : "cross-attention";
  const [, stack, layer] = path.match(/^(\w+)\.layers\.(\d+)/);
  return `${stack === "layers" ? "" : `${stack} `}layer ${Number(layer) + 1}, after ${after}`;
}

function feedForwardScreen(e) {
  const path = e.forward;
  const stack = e.stackOf(path);
  const part = name => `${path}.${name}`;
  const first = e.plan.get(part("linear1")).from[0];
  const hidden = e.record.arrays[part("hidden")];
  const on = hidden.data.filter(x => x > 0).length;
  const { says } = ACTIVATION_RULES[stack.activation];
  return {
    thought: "Each word by itself now goes through a wide hidden layer and back. Attention moves information between words; here it is worked on.",
    body: [
      placeChoice(e, "forward", forwardPaths(e)),
      h("p", { class: "formula" }, stack.gated ? "FFN(x) = (f(x W₁) · x W₃) W₂" : "FFN(x) = f(x W₁ + b₁) W₂ + b₂,  ", stack.gated ? null : says),
      matrix(e, first, { title: "what comes in", letter: "X" }),
      h("p", { class: "sign" }, "times ", symbol("W_1"), " ="),
      matrix(e, part("linear1"), { title: "first layer" }),
      stack.gated ? [h("p", { class: "sign" }, "and times ", symbol("W_3"), " ="), matrix(e, part("linear3"), { title: "gate" })] : null,
      h("p", { class: "sign" }, "activation:"),
      matrix(e, part("hidden"), { title: `hidden layer: ${on.toLocaleString("en")} of ${hidden.data.length.toLocaleString("en")} are above 0` }),
      h("p", { class: "sign" }, "times ", symbol("W_2"), " ="),
      matrix(e, part("output"), { title: "output" }),
    ],
  };
}

/** The state of one token after each layer, and which word it would give there (logit lens). */
function layersScreen(e) {
  const stack = e.structure.stacks.find(each => each.name === e.lensStack) ?? e.structure.stacks.at(-1);
  const rows = layerOutputs(e, stack);
  const side = stack.name === "decoder" ? "target" : "source";
  const words = e.tokensOf(side);
  const t = Math.min(stack === e.structure.stacks.at(-1) ? e.step : e.word ?? 0, words.length - 1);
  const speaks = !e.isImage && (!e.structure.output.head || e.structure.output.head === "masked_lm");
  return {
    thought: "The layers are alike, one after another; each reads what the last one wrote. Read with the output matrix, a state says which word it is closest to by then.",
    body: [
      e.structure.stacks.length > 1 ? h("div", { class: "choices" }, choice("Stack", e.structure.stacks.map(each => [each.name, each.name]), stack.name, name => e.set({ lensStack: name }))) : null,
      wordRow(words, t, "Token", i => e.set(stack === e.structure.stacks.at(-1) ? { step: i, word: i } : { word: i })),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Layers" }, h("table", { class: "steps" },
        h("thead", {}, h("tr", {}, ["after", "size of the state", "turned by", speaks ? "closest words" : ""].map((text, i) => (text ? h("th", { scope: "col", class: i === 3 ? "wrap" : null }, text) : h("td", {}))))),
        h("tbody", {}, rows.map(([label, name], i) => {
          const state = rowOf(e.record.arrays[name], t);
          const before = i ? rowOf(e.record.arrays[rows[i - 1][1]], t) : null;
          const cosine = before ? dotProduct(state, before) / (norm(state) * norm(before) || 1) : 1;
          return h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, norm(state).toFixed(2)), h("td", {}, before ? `${((180 * Math.acos(Math.max(-1, Math.min(1, cosine)))) / Math.PI).toFixed(0)}°` : ""),
            h("td", { class: "wrap" }, speaks ? lens(e, state, stack, name === `${stack.name}.norm.output`).map(([word, p]) => h("span", { class: "chip" }, `${word} ${percent(p)}`)) : ""));
        })))),
      speaks ? h("p", { class: "hint" }, stack.name === "encoder" && e.isPair ? "The encoder is not trained to say words: what is closest need not mean anything." : "The last line is the model's own answer; the lines before it have not been trained to be read so.") : null,
    ],
  };
}

function layerOutputs(e, stack) {
  const rows = [["the input", `${stack.name}.input`]];
  for (let i = 0; i < stack.layers; i++) {
    const last = `${stack.name}.layers.${i}.residual${stack.cross ? 3 : 2}`;
    rows.push([`layer ${i + 1}`, stack.normFirst ? `${last}.sum` : `${last}.norm.output`]);
  }
  if (stack.finalNorm) rows.push(["the final norm", `${stack.name}.norm.output`]);
  return rows;
}

function rowOf({ data, shape }, t) {
  const width = shape.at(-1);
  return data.subarray(t * width, (t + 1) * width);
}

/** The likeliest words of a state, read with the final norm (of pre-norm models) and the output layer. */
function lens(e, state, stack, isNormed) {
  const kind = stack.norm.kind === "layer" ? "layer_norm" : "rms_norm";
  const final = stack.finalNorm && !isNormed ? { path: `${stack.name}.norm`, norm: kind, layer_norm_eps: e.eps() } : null;
  const p = e.model.lens(state, final);
  return largestIndices(p, 3).map(i => [shownToken(e.tokenOf(i)), p[i]]);
}
