// Stages from text to the input of the first layer.

function walkthroughScreen(e) {
  const promised = [
    ["embeddings", "From words to vectors"], ["positions", "Positions"], ["wavelengths", "The waves of the positions"], ["qkv", "Queries, keys, values"],
    ["attention", "Scaled dot-product attention"], ["heads", "Several heads"], ["probabilities", e.structure.output.head ? "Probabilities" : "The next word"],
  ];
  const last = e.attentionPaths().filter(path => (e.isPair ? path.includes("cross") : true)).at(-1);
  const head = Math.min(e.head, e.stackOf(last).heads - 1);
  return {
    thought: opening(e),
    body: [
      journey(e),
      e.isImage ? null : h("section", {}, h("h3", {}, e.isPair ? "Which words each new word looks at" : "Which words each word looks at"),
        arcs(e.record.arrays[`${last}.weights`], head, last.includes("cross") ? e.labels().map(id => shownToken(e.tokenOf(id))) : e.tokensOf(e.sideOfRows(`${last}.weights`)), e.tokensOf(last.includes("cross") ? "source" : e.sideOfRows(`${last}.weights`))),
        h("p", { class: "hint" }, `Head ${head + 1} of `, h("a", { href: `#heads:${last}` }, titleOfPath(last)), ": the wider the arc, the larger the weight.")),
      h("section", {}, h("h3", {}, "Go straight to"), h("ul", { class: "links" }, promised.filter(([to]) => e.screens.some(screen => screen.address === to)).map(([to, text]) => h("li", {}, h("a", { href: `#${to}` }, text))))),
      h("section", {}, h("h3", {}, "How to read this"), h("ul", {},
        h("li", {}, "Select any number: you see the numbers that it was made of."),
        h("li", {}, h("b", {}, "Gradients"), " (key G) shows beside each array how the loss would change with it."),
        h("li", {}, h("b", {}, "What if"), " takes parts of the model away; every number follows."),
        h("li", {}, "Keys: ← and → step through the stages, N for the next word, Q for a question."))),
    ],
  };
}

/** What a BERT says of a text, by its head. */
const SAYS = {
  masked_lm: "which word fits where one is masked", classification: "which class it belongs to",
  token_classification: "which class each of its tokens belongs to", next_sentence: "whether its second sentence follows its first",
};

function opening(e) {
  if (e.isPair) return "A Transformer reads a sentence at once, and writes its answer word by word. Every number on these pages is computed here, in your browser, by the trained model.";
  if (e.isImage) return "A Vision Transformer cuts an image in patches and reads them as words.";
  if (e.structure.output.head) return `BERT reads a text in both directions at once, and says ${SAYS[e.structure.output.head]}.`;
  const kind = e.data.model_type === "llama" ? "Llama" : "GPT";
  return `A ${kind} reads a text and says which token comes next: a word, a part of one, or a letter. The token is added, and it reads again.`;
}

/** Words in, words out, and how sure the model was of each. */
function journey(e) {
  if (e.isImage) return h("section", {}, imagePicture(e));
  if (e.structure.output.head) return h("section", { class: "journey" }, h("div", {}, h("h3", {}, "Reads"), wordRow(e.tokensOf("source"), null, "Input")), h("div", {}, guesses(e)));
  const { data, shape } = e.record.arrays.probabilities;
  const first = e.isPair ? 0 : e.prompt - 1;
  const out = e.labels().slice(first).map((id, i) => {
    const p = data[(first + i) * shape[1] + id];
    return [shownToken(e.tokenOf(id)), p, percent(p)];
  });
  return h("section", { class: "journey" },
    h("div", {}, h("h3", {}, "Reads"), wordRow(e.isPair ? e.tokensOf("source") : e.tokensOf("source").slice(0, e.prompt), null, "What the model reads")),
    h("div", {}, h("h3", {}, e.target ? "Probability of the right words" : "Writes"), bars(out, "Each new word and its probability")));
}

/** The likeliest words of the first gap, or labels of the whole. */
function guesses(e) {
  const row = rowOf(e.record.arrays.probabilities, stepRow(e));
  const title = e.gaps ? "Fills the gap" : e.record.arrays.logits.shape[0] === 1 ? "Says" : `Says of “${e.rowLabel("logits", stepRow(e))}”`;
  return [h("h3", {}, title), bars(largestIndices(row, 5).map(v => [shownToken(e.wordOf(v)), row[v], percent(row[v])]), title)];
}

/** The image with the lines along which it is cut, and what the model takes it for. */
function imagePicture(e) {
  const { image_size: size, patch_size: patch, num_channels: channels } = e.data.config;
  const unit = Math.max(1, Math.floor(260 / size));
  const canvas = h("canvas", { width: size * unit, height: size * unit, role: "img", "aria-label": `The image, ${size} × ${size}, in patches of ${patch} × ${patch}` });
  const pen = canvas.getContext("2d");
  const [low, high] = [Math.min(...e.data.image), Math.max(...e.data.image)];
  for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) {
    const at = c => Math.round((255 * (e.data.image[(Math.min(c, channels - 1) * size + y) * size + x] - low)) / (high - low || 1));
    pen.fillStyle = `rgb(${at(0)},${at(1)},${at(2)})`;
    pen.fillRect(x * unit, y * unit, unit, unit);
  }
  pen.strokeStyle = "#d9822b";
  pen.lineWidth = 2;
  for (let i = 0; i <= size; i += patch) for (const [x, y, w, z] of [[i, 0, i, size], [0, i, size, i]]) {
    pen.beginPath();
    pen.moveTo(x * unit, y * unit);
    pen.lineTo(w * unit, z * unit);
    pen.stroke();
  }
  return h("div", { class: "journey" }, h("div", {}, h("h3", {}, "Reads"), canvas), h("div", {}, guesses(e)));
}

function tokensScreen(e) {
  const source = [...e.record.source].slice(0, e.prompt);
  const unknown = source.filter(id => id === e.data.tokenizer.unk_id).length;
  return {
    thought: `The text becomes ${source.length} tokens, and each token a number: its row in the vocabulary of ${e.data.tokenizer.tokens.length.toLocaleString("en")} entries.`,
    body: [
      h("blockquote", { class: "text", dir: "auto" }, e.text),
      h("div", { class: "scroll" }, h("table", { class: "tokens" },
        h("thead", {}, h("tr", {}, ["position", "token", "id"].map(text => h("th", { scope: "col" }, text)))),
        h("tbody", {}, source.map((id, t) => h("tr", {}, h("th", { scope: "row" }, `${t}`), h("td", { class: "word", dir: "auto" }, shownToken(e.tokenOf(id))), h("td", {}, `${id}`)))))),
      unknown ? h("p", { class: "note" }, `${unknown} of the tokens stand for words that the model has never seen: all of them share one row, <UNK>.`) : null,
      source.at(-1) === e.data.tokenizer.end_id ? h("p", { class: "hint" }, "<END> marks the end of the sentence.") : null,
    ],
  };
}

function embeddingsScreen(e) {
  const stack = e.structure.stacks[0];
  const ids = e.record.source;
  const t = Math.min(e.word ?? 0, ids.length - 1);
  const id = ids[t];
  const token = shownToken(e.tokenOf(id));
  const name = `${stack.name}.embedded`;
  const size = e.weights[stack.embedding].shape;
  return {
    thought: `Each token has a learned vector of ${size[1]} numbers: a row of the matrix E (${size[0]} × ${size[1]}). To look it up is the same as to multiply a one-hot vector with E.`,
    body: [
      wordRow(e.tokensOf("source"), t, "Token to look up", i => e.set({ word: i })),
      oneHot(e, id, size[0]),
      matrix(e, name, { title: "word vectors, rows of E", letter: "E", current: t }),
      stack.factor ? [h("p", {}, `The vectors are multiplied by √${size[1]} = ${precise(stack.factor)}, so that they are not small beside the positions.`), matrix(e, `${stack.name}.scaled`, { title: "word vectors times √d", current: t })] : null,
      h("section", {}, h("h3", {}, `Words whose vectors point the same way as “${token}”`), nearest(e, stack.embedding, id)),
    ],
  };
}

/** 0 0 1 0 ... times E is a row of E. */
function oneHot(e, id, count) {
  const from = Math.max(0, Math.min(id - 2, count - 5));
  const around = range(Math.min(5, count), i => from + i);
  return h("div", { class: "scroll" }, h("table", { class: "onehot" },
    h("caption", {}, `One-hot vector of “${shownToken(e.tokenOf(id))}”: 1 at ${id}, 0 at the other ${count - 1} places`),
    h("thead", {}, h("tr", {}, from > 0 ? h("th", { scope: "col" }, "…") : null, around.map(i => h("th", { scope: "col" }, `${i} ${shownToken(e.tokenOf(i))}`)), h("th", { scope: "col" }, "…"))),
    h("tbody", {}, h("tr", {}, from > 0 ? h("td", {}, "0") : null, around.map(i => h("td", { class: i === id ? "chosen" : null }, i === id ? "1" : "0")), h("td", {}, "0")))));
}

/** The most similar rows of E, by the cosine of their angle. */
function nearest(e, weight, id) {
  const { data, shape } = e.weights[weight];
  const row = i => data.subarray(i * shape[1], (i + 1) * shape[1]);
  const own = row(id);
  const cosines = Float64Array.from({ length: shape[0] }, (_, i) => dotProduct(row(i), own) / (norm(row(i)) * norm(own) || 1));
  cosines[id] = -2;
  return bars(largestIndices(cosines, 6).map(i => [shownToken(e.tokenOf(i)), cosines[i], cosines[i].toFixed(2)]), "Cosines");
}

function dotProduct(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function positionsScreen(e) {
  const stack = e.structure.stacks[0];
  const word = stack.factor ? `${stack.name}.scaled` : stack.embedding ? `${stack.name}.embedded` : `${stack.name}.tokens`;
  const learned = stack.positions === "learned";
  return {
    thought: learned
      ? "Attention alone does not know the order of the words. So a learned vector for each position is added."
      : "Attention alone does not know the order of the words. So each position has a pattern of sines and cosines, which is added to the word.",
    body: [
      learned ? null : h("p", { class: "formula" }, "PE(pos, 2i) = sin(pos / 10000", h("sup", {}, "2i/d"), "),  PE(pos, 2i+1) = cos(pos / 10000", h("sup", {}, "2i/d"), ")"),
      e.options.positions ? null : h("p", { class: "note" }, "Positions are switched off: the model cannot tell “dog bites man” from “man bites dog”."),
      matrix(e, word, { title: "word vectors" }),
      h("p", { class: "sign" }, "+"),
      matrix(e, `${stack.name}.positions`, { title: "position vectors" }),
      h("p", { class: "sign" }, "="),
      matrix(e, `${stack.name}.input`, { title: "input of the first layer", letter: "X" }),
    ],
  };
}

/** The encoding of many positions, computed here: no model is needed. */
function wavelengthsScreen(e) {
  const stack = e.structure.stacks[0];
  const width = e.record.arrays[`${stack.name}.positions`].shape[1];
  const look = e.look ?? { pair: 2, position: 10 };
  const pair = Math.min(look.pair, Math.floor(width / 2) - 1);
  const scale = 10000 ** ((2 * pair) / width);
  const wavelength = 2 * Math.PI * scale;
  const encode = pos => Float64Array.from({ length: width }, (_, j) => Math[j % 2 ? "cos" : "sin"](pos / 10000 ** ((j - (j % 2)) / width)));
  const positions = 100;
  const rows = range(positions, encode);
  return {
    thought: "Each pair of columns is a wave. The first pair turns fast, the last very slowly: as the digits of a number do.",
    body: [
      positionsPicture(rows, width, look.position, pair),
      slider("Pair of columns 2i", { min: 0, max: Math.floor(width / 2) - 1, step: 1, value: pair, text: `${2 * pair}: wavelength ${brief(wavelength)} positions`, oninput: value => e.set({ look: { ...look, pair: value } }) }),
      waves(scale, positions, look.position),
      h("p", { class: "hint" }, "This pair over the positions: the sine is drawn through, the cosine broken."),
      slider("Position", { min: 0, max: positions - 1, step: 1, value: look.position, text: `${look.position}`, oninput: value => e.set({ look: { ...look, position: value } }) }),
      h("p", {}, `At position ${look.position}: sin(${look.position} / ${brief(scale)}) = `, h("b", {}, precise(Math.sin(look.position / scale))), `, cos = `, h("b", {}, precise(Math.cos(look.position / scale)))),
      h("h3", {}, "How alike two positions are"),
      h("p", {}, `The dot product of position ${look.position} with each other one. It depends on the distance alone, since PE(pos + k) is PE(pos), turned pair by pair.`),
      curve(rows.map(row => dotProduct(row, rows[look.position])), look.position, "Dot product with each position"),
    ],
  };
}

function positionsPicture(rows, width, position, pair) {
  const unit = Math.max(2, Math.floor(640 / width));
  const canvas = h("canvas", { class: "strip", width: width * unit, height: rows.length * 3, role: "img", "aria-label": `Position vectors of ${rows.length} positions, from above, and ${width} columns` });
  const pen = canvas.getContext("2d");
  const colours = stripColours();
  rows.forEach((row, t) => row.forEach((x, j) => {
    pen.fillStyle = blend(colours.paper, x < 0 ? colours.negative : colours.positive, Math.abs(x));
    pen.fillRect(j * unit, t * 3, unit, 3);
  }));
  const frame = h("div", { class: "strip-window" });
  frame.style.left = `${(200 * pair) / width}%`;
  frame.style.width = `${200 / width}%`;
  const line = h("div", { class: "strip-row" });
  line.style.top = `${(100 * position) / rows.length}%`;
  return h("figure", {}, h("figcaption", {}, `${rows.length} positions (down) × ${width} columns`), h("div", { class: "strip-box" }, canvas, frame, line));
}

function waves(scale, positions, position) {
  const path = f => range(positions * 2, i => `${i ? "L" : "M"}${(i * 3.2).toFixed(1)} ${(60 - 46 * f(i / 2 / scale)).toFixed(1)}`).join("");
  return s("svg", { class: "waves", viewBox: "0 0 640 120", role: "img", "aria-label": "Sine and cosine of this pair over the positions" },
    s("path", { class: "axis", d: "M0 60H640" }), s("path", { class: "sine", d: path(Math.sin) }), s("path", { class: "cosine", d: path(Math.cos) }),
    s("path", { class: "marker", d: `M${position * 6.4} 6V114` }));
}

function curve(values, position, label) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = x => (112 - (100 * (x - low)) / (high - low || 1)).toFixed(1);
  const d = values.map((x, i) => `${i ? "L" : "M"}${((i * 640) / (values.length - 1)).toFixed(1)} ${y(x)}`).join("");
  return s("svg", { class: "waves", viewBox: "0 0 640 120", role: "img", "aria-label": label }, s("path", { class: "sine", d }),
    s("path", { class: "marker", d: `M${((position * 640) / (values.length - 1)).toFixed(1)} 6V114` }),
    s("text", { x: 4, y: 14 }, brief(high)), s("text", { x: 4, y: 116 }, brief(low)));
}

function shiftedScreen(e) {
  const stack = e.structure.stacks[1];
  const inputs = e.tokensOf("target");
  const name = part => `${stack.name}.${part}`;
  const word = stack.factor ? name("scaled") : name("embedded");
  return {
    thought: "The decoder reads what has been written so far, behind a start token: the output, shifted right by one. At each place it is to say the next word.",
    body: [
      h("div", { class: "scroll" }, h("table", { class: "tokens" }, h("tbody", {},
        h("tr", {}, h("th", { scope: "row" }, "reads"), inputs.map((word, t) => h("td", { class: t === e.step ? "word current" : "word" }, word))),
        h("tr", {}, h("th", { scope: "row" }, "is to say"), e.labels().map((id, t) => h("td", { class: t === e.step ? "word current" : "word" }, shownToken(e.tokenOf(id)))))))),
      matrix(e, word, { title: "word vectors", current: e.step }),
      stack.positions === "none" ? null : [h("p", { class: "sign" }, "+"), matrix(e, name("positions"), { title: "position vectors", current: e.step })],
      h("p", { class: "sign" }, "="), matrix(e, name("input"), { title: "input of the decoder's layers", letter: "X", current: e.step }),
    ],
  };
}
