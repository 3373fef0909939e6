// The map: figure 1 of the paper for this model. Each box leads to its stage.

function renderMap(e) {
  const map = document.getElementById("map");
  const open = e.mapOpen ?? window.innerWidth >= 1000; // a notebook's frame may get its width later
  const place = placeOf(e);
  update(map, [h("details", { open },
    h("summary", { "data-key": "map", onclick: event => { e.mapOpen = !event.currentTarget.parentElement.open; } }, `Map: ${place.title}`),
    drawnMap(e),
    h("ol", { class: "stages" }, e.screens.map(screen => h("li", {}, h("a", {
      href: `#${screen.address}`, "aria-current": screen.address === e.screen ? "step" : null,
    }, screen.title)))),
    checkbox("Letter keys: G, H, N, Q, /", e.letterKeys, letterKeys => e.set({ letterKeys }), "letters"))]);
}

function placeOf(e) {
  return e.screens.find(screen => screen.address === e.screen) ?? e.screens[0];
}

const [BOX, SIDE, BETWEEN, GAP] = [112, 12, 22, 8]; // widths of a box, of the margin and between the stacks; height of a gap

/** The boxes of figure 1, from the bottom up; the stacks side by side, with what goes around each sub-layer. */
function drawnMap(e) {
  const { stacks } = e.structure;
  const columns = stacks.map((stack, i) => mapColumn(e, stack, i === stacks.length - 1));
  const height = Math.max(...columns.map(boxes => boxes.reduce((sum, box) => sum + box.height + GAP, 0))) + 12;
  const width = 2 * SIDE + stacks.length * BOX + (stacks.length - 1) * BETWEEN;
  columns.forEach((boxes, i) => {
    let y = height - 4;
    for (const box of boxes) Object.assign(box, { x: SIDE + i * (BOX + BETWEEN), y: (y -= box.height + GAP) });
  });
  const encoded = columns[0].at(-1); // what cross-attention reads
  const drawn = columns.map((boxes, i) => {
    const outside = i ? width - 5 : 5; // residual connections are at the outside of each stack
    return boxes.map(box => {
      const { x, y, height, text, to, kind, label, around, reads } = box;
      const here = isHere(e, box);
      const middle = [x + BOX / 2, y + height / 2];
      const wires = [`M${middle[0]} ${y + height + GAP}V${y + height}`];
      if (around) wires.push(`M${middle[0]} ${around.y + around.height + GAP / 2}H${outside}V${middle[1]}H${i ? x + BOX : x}${i ? "l4 -3m-4 3l4 3" : "l-4 -3m4 3l-4 3"}`);
      if (reads) wires.push(`M${encoded.x + BOX / 2} ${encoded.y}V${encoded.y - 5}H${x - BETWEEN / 2}V${middle[1]}H${x}l-4 -3m4 3l-4 3`);
      return [
        wires.map(d => s("path", { class: "wire", d })),
        s("a", { href: `#${to}`, class: here ? "box here" : "box", "aria-current": here ? "step" : null, "aria-label": label },
          s("rect", { x, y, width: BOX, height, rx: 6, class: kind }), s("text", { x: middle[0], y: middle[1] + 4, "text-anchor": "middle" }, text)),
      ];
    });
  });
  const map = s("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "The model, as figure 1 of the paper" }, drawn);
  map.style.maxWidth = `${Math.round(1.03 * width)}px`;
  return map;
}

/** The boxes of a stack: text, address, kind, height; `around` is the box at which a residual connection leaves. */
function mapColumn(e, stack, isLast) {
  const side = stack.name === "layers" ? "" : `${stack.name} `; // a GPT has one stack, which has no name
  const boxes = [];
  const box = (text, to, kind = "plain", height = 24, more = {}) => boxes.push({ text, to, kind, height, label: side ? `${text}, ${stack.name}` : text, ...more });
  const second = e.structure.stacks.length > 1 && stack.name === "decoder";
  box(e.isImage ? "Patches" : "Tokens", second ? "shifted" : e.isImage ? "patches" : "tokens", "text");
  box("Embedding", second ? "shifted" : e.isImage ? "patches" : "embeddings", "embedding");
  if (stack.segments) box("+ Segments", "segments", "embedding");
  if (stack.positions !== "none") box(stack.concatenate ? "Positions beside" : "+ Positions", second ? "shifted" : "positions", "embedding");
  if (stack.embeddingNorm) box("Norm", `input-norm:${stack.name}`, "norm", 18);
  for (let i = 0; i < stack.layers; i++) {
    if (stack.layers > 4 && i > 0 && i < stack.layers - 1) {
      if (i === 1) box(`… ${stack.layers - 2} more layers`, "layers", "plain", 20);
      continue;
    }
    subLayers(stack, i).forEach(([name, text, to, kind], j) => {
      const where = `${side}layer ${i + 1}`;
      const residual = `add-norm:${stack.name}.layers.${i}.residual${j + 1}`;
      const first = boxes.length;
      if (stack.normFirst) box("Norm", residual, "norm", 18, { label: `Norm before ${name}, ${where}` });
      box(text, to, kind, 24, { label: `${text}, ${where}`, reads: name === "cross-attention" });
      const sum = stack.normFirst ? "Add" : "Add & norm";
      box(sum, residual, "norm", 18, { label: `${sum} after ${name}, ${where}`, around: boxes[first] });
    });
  }
  if (stack.finalNorm) box("Norm", `final-norm:${stack.name}`, "norm", 18, { label: `Norm after the last ${side}layer` });
  if (isLast) {
    if (e.plan.get("logits").from[0].startsWith("head.")) box("Head", "head", "linear");
    box("Linear", "logits", "linear");
    box("Softmax", "probabilities", "softmax");
  }
  return boxes;
}

/** [name, text, address, kind] of each sub-layer of a layer. */
function subLayers(stack, i) {
  const path = `${stack.name}.layers.${i}`;
  const own = stack.causal ? "Masked attention" : "Self-attention";
  return [
    ["self-attention", own, `attention:${path}.self_attention`, "attention"],
    stack.cross && ["cross-attention", "Cross-attention", `attention:${path}.cross_attention`, "attention"],
    ["feed forward", "Feed forward", `feed-forward:${path}.feed_forward`, "forward"],
  ].filter(Boolean);
}

/** Whether the place on the page is this box. */
function isHere(e, { to }) {
  const [address, path] = to.split(":");
  const attentions = ["attention", "qkv", "scores", "scale", "mask", "softmax", "weighted-sum", "heads", "cross-attention"];
  if (address === "attention" && e.screen === "alignment") return path === (e.alignPath ?? e.attentionPaths().at(-1));
  if (e.structure.stacks[0].positions === "none") attentions.push("positions"); // which act in the attention
  if (address === "attention") return attentions.includes(e.screen) && path === e.path;
  const stack = e.normStack ?? e.structure.stacks.at(-1).name;
  const places = { "add-norm": e.residual, "feed-forward": e.forward, "input-norm": stack, "final-norm": stack };
  return e.screen === address && (!path || path === places[address]);
}
