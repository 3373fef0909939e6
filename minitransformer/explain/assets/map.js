// The map: figure 1 of the paper for this model. Each box leads to its stage.

function renderMap(e) {
  const map = document.getElementById("map");
  const open = e.mapOpen ?? window.innerWidth >= 1000; // a notebook's frame may get its width later
  const place = placeOf(e);
  map.replaceChildren(h("details", { open },
    h("summary", { "data-key": "map", onclick: event => { e.mapOpen = !event.currentTarget.parentElement.open; } }, `Map: ${place.title}`),
    drawnMap(e),
    h("ol", { class: "stages" }, e.screens.map(screen => h("li", {}, h("a", {
      href: `#${screen.address}`, "aria-current": screen.address === e.screen ? "step" : null,
    }, screen.title))))));
}

function placeOf(e) {
  return e.screens.find(screen => screen.address === e.screen) ?? e.screens[0];
}

/** The boxes of figure 1, from the bottom up; the stacks side by side. */
function drawnMap(e) {
  const { stacks } = e.structure;
  const width = 118;
  const gap = 14;
  const columns = stacks.map((stack, i) => mapColumn(e, stack, i === stacks.length - 1));
  const height = Math.max(...columns.map(boxes => boxes.reduce((sum, box) => sum + box.height + 7, 0))) + 8;
  const drawn = columns.map((boxes, i) => {
    let y = height - 4;
    const x = i * (width + gap) + 2;
    return boxes.map(box => {
      y -= box.height + 7;
      const here = isHere(e, box);
      const middle = x + width / 2;
      return [
        s("path", { class: "wire", d: `M${middle} ${y + box.height + 7} V${y + box.height}` }),
        s("a", { href: `#${box.to}`, class: here ? "box here" : "box", "aria-current": here ? "step" : null, "aria-label": box.label ?? box.text },
          s("rect", { x, y, width, height: box.height, rx: 6, class: box.kind }), s("text", { x: middle, y: y + box.height / 2 + 4, "text-anchor": "middle" }, box.text)),
      ];
    });
  });
  const all = stacks.length * width + (stacks.length - 1) * gap + 4;
  const map = s("svg", { class: "map", viewBox: `0 0 ${all} ${height}`, role: "group", "aria-label": "The model, as figure 1 of the paper" }, drawn);
  map.style.maxWidth = `${Math.round(1.03 * all)}px`;
  return map;
}

function mapColumn(e, stack, isLast) {
  const side = stack.name === "decoder" ? "decoder" : "encoder";
  const boxes = [];
  const box = (text, to, kind = "plain", height = 24, label = null) => boxes.push({ text, to, kind, height, label: label ?? `${text}, ${stack.name}` });
  const at = e.structure.stacks.length > 1 && stack.name === "decoder";
  box(e.isImage ? "Patches" : "Tokens", at ? "shifted" : "tokens", "text");
  box("Embedding", at ? "shifted" : "embeddings", "embedding");
  if (stack.positions !== "none") box("+ Positions", "positions", "embedding");
  for (let i = 0; i < stack.layers; i++) {
    if (stack.layers > 4 && i > 0 && i < stack.layers - 1) {
      if (i === 1) box(`… ${stack.layers - 2} more layers`, "layers", "plain", 20);
      continue;
    }
    const path = `${stack.name}.layers.${i}`;
    const own = stack.causal ? "Masked attention" : "Self-attention";
    box(own, `attention:${path}.self_attention`, "attention", 24, `${own}, ${side} layer ${i + 1}`);
    box("Add & norm", `add-norm:${path}.residual1`, "norm", 18, `Add and norm after self-attention, ${side} layer ${i + 1}`);
    if (stack.cross) {
      box("Cross-attention", `attention:${path}.cross_attention`, "attention", 24, `Cross-attention, layer ${i + 1}`);
      box("Add & norm", `add-norm:${path}.residual2`, "norm", 18, `Add and norm after cross-attention, layer ${i + 1}`);
    }
    box("Feed forward", `feed-forward:${path}.feed_forward`, "forward", 24, `Feed forward, ${side} layer ${i + 1}`);
    const last = stack.cross ? 3 : 2;
    box("Add & norm", `add-norm:${path}.residual${last}`, "norm", 18, `Add and norm after feed forward, ${side} layer ${i + 1}`);
  }
  if (isLast) {
    box("Linear", "logits", "linear");
    box("Softmax", "probabilities", "softmax");
  }
  return boxes;
}

/** Whether the place on the page is this box. */
function isHere(e, box) {
  const [address, path] = box.to.split(":");
  const attentions = ["attention", "qkv", "scores", "scale", "mask", "softmax", "weighted-sum", "heads"];
  if (address === "attention" && attentions.includes(e.screen)) return e.path === path;
  if (e.screen !== address) return false;
  return !path || e.placeIn === path;
}
