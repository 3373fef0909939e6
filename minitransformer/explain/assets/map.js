// The map: figure 1 of the paper for this model. Each box leads to its stage.

import { h, s } from "../../../minigrad/graph/assets/dom.js";
import { range } from "./derive.js";
import { ATTENTION_STAGES } from "./elements.js";
import { forwardPaths, residualPaths } from "./layers.js";
import { checkbox, choice } from "./pictures.js";
import { update } from "./update.js";

export function renderMap(e) {
  const map = document.getElementById("map");
  const isPicture = ["walkthrough", "backward"].includes(e.screen); // which has the whole width
  const open = isPicture ? (e.mapOver ?? false) : (e.mapOpen ?? window.innerWidth >= 1000); // a notebook's frame may get its width later
  update(map, [
    h(
      "details",
      { open, ontoggle: () => showPlace(map) },
      h(
        "summary",
        {
          "data-key": "map",
          onclick: event => {
            e[isPicture ? "mapOver" : "mapOpen"] = !event.currentTarget.parentElement.open;
          },
        },
        "Map",
      ),
      h(
        "div",
        { class: "panes" },
        h("div", { class: "pane drawing" }, drawnMap(e)),
        h(
          "div",
          { class: "choices layers" },
          e.structure.stacks.filter(({ layers }) => layers > 1).map(stack => layerChoice(e, stack)),
        ),
        h("div", { class: "pane stages" }, chaptersOf(e)),
        checkbox("Letter keys: G, H, N, Q, /", e.letterKeys, letterKeys => e.set({ letterKeys }), "letters"),
      ),
    ),
  ]);
  showPlace(map);
}

/** The stages, by chapters, of which that of this stage is open. */
function chaptersOf(e) {
  const here = e.screens.find(({ address }) => address === e.screen).chapter;
  return [...new Set(e.screens.map(({ chapter }) => chapter))].map(chapter => {
    const stages = e.screens.filter(each => each.chapter === chapter);
    const links = h(
      "ol",
      { start: e.screens.indexOf(stages[0]) + 1 },
      stages.map(({ address, title }) =>
        h("li", h("a", { href: `#${address}`, "aria-current": address === e.screen ? "step" : null }, title)),
      ),
    );
    return chapter
      ? h(
          "details",
          { open: chapter === here },
          h("summary", { "data-key": `chapter:${chapter}` }, chapter),
          links,
        )
      : links;
  });
}

/** Scrolls the drawing and the list to where one is. */
function showPlace(map) {
  if (!map.querySelector("details").open) return;
  for (const [here, region] of [
    [".here", ".drawing"],
    ["[aria-current]", ".stages"],
  ]) {
    const pane = map.querySelector(region);
    const place = pane.querySelector(here)?.getBoundingClientRect();
    const box = pane.getBoundingClientRect();
    if (place && (place.top < box.top || place.bottom > box.bottom)) {
      pane.scrollTop += place.top - box.top - (box.height - place.height) / 2;
    }
  }
}

/** Which of a stack's equal layers is drawn; a stage inside of a layer moves there. */
function layerChoice(e, { name, layers }) {
  const label = name === "layers" ? "Layer" : capitalized(name);
  const chosen = value => {
    if (e.isRecurrent)
      return e.screen in RECURRENT_PLACES
        ? e.go(`${e.screen}:layers.${value}`)
        : e.set({ layers: { [name]: Number(value) } });
    const moved = inLayer(e, name, Number(value));
    const key = PLACES[e.screen] ?? "path";
    const isHere = attentionStages(e).includes(e.screen) || e.screen in PLACES;
    if (isHere && e[key].startsWith(name)) e.go(`${e.screen}:${moved[key]}`);
    else e.set({ ...moved, layers: { ...e.layers, [name]: Number(value) } });
  };
  return choice(
    label,
    range(layers, i => [String(i), `${i + 1} of ${layers}`]),
    String(e.layers[name]),
    chosen,
  );
}

const PLACES = { "add-norm": "residual", "feed-forward": "forward" }; // what says where in the model a stage is

const RECURRENT_PLACES = { gates: true, memory: true, "through-time": true }; // stages that are about one layer

export function capitalized(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** The places of the stages in a layer: those that they have now, if they are in this stack. */
export function inLayer(e, stack, layer) {
  const start = `${stack}.layers.`;
  const paths = { path: e.attentionPaths(), residual: residualPaths(e), forward: forwardPaths(e) };
  return Object.fromEntries(
    Object.entries(paths).map(([key, all]) => {
      const moved = e[key].startsWith(start) ? e[key].replace(/layers\.\d+/, `layers.${layer}`) : null;
      return [key, all.includes(moved) ? moved : all.find(path => path.startsWith(`${start}${layer}.`))];
    }),
  );
}

const [BOX, SIDE, BETWEEN, GAP] = [112, 12, 22, 8]; // widths of a box, of the margin and between the stacks; height of a gap
const COUNT = 14; // height of the line that says how many equal layers there are

/** The boxes of figure 1, from the bottom up; the stacks side by side, with what goes around each sub-layer. */
function drawnMap(e) {
  const { stacks } = e.structure;
  const columns = stacks.map((stack, i) => mapColumn(e, stack, i === stacks.length - 1));
  const height =
    Math.max(
      ...columns.map(boxes => boxes.reduce((sum, box) => sum + box.height + GAP + (box.above ?? 0), 0)),
    ) + 12;
  const width = 2 * SIDE + stacks.length * BOX + (stacks.length - 1) * BETWEEN;
  columns.forEach((boxes, i) => {
    let y = height - 4;
    for (const box of boxes) {
      y -= box.height + GAP;
      Object.assign(box, { x: SIDE + i * (BOX + BETWEEN), y });
      y -= box.above ?? 0;
    }
  });
  const encoded = columns[0].at(-1); // what cross-attention reads
  const frames = stacks.map(({ name, layers }, i) => {
    if (layers < 2) return null;
    const inside = columns[i].filter(box => box.inLayer);
    const [first, last] = [inside[0], inside.at(-1)];
    const [x, y] = [i ? first.x - 7 : 1, last.y - COUNT - 2]; // with the residual connections, which are outside
    return [
      s("rect", {
        class: "layer",
        x,
        y,
        width: BOX + SIDE + 6,
        height: first.y + first.height + GAP - 2 - y,
        rx: 8,
      }),
      s("text", { class: "times", x: first.x, y: y + 12 }, `× ${layers}, here layer ${e.layers[name] + 1}`),
    ];
  });
  const drawn = columns.map((boxes, i) => {
    const outside = i ? width - 5 : 5; // residual connections are at the outside of each stack
    return boxes.map(box => {
      const { x, y, height, text, to, kind, label, around, reads, carried } = box;
      const here = isHere(e, box);
      const middle = [x + BOX / 2, y + height / 2];
      const wires = [`M${middle[0]} ${y + height + GAP}V${y + height}`];
      if (around)
        wires.push(
          `M${middle[0]} ${around.y + around.height + GAP / 2}H${outside}V${middle[1]}H${i ? x + BOX : x}${i ? "l4 -3m-4 3l4 3" : "l-4 -3m4 3l-4 3"}`,
        );
      if (carried)
        wires.push(`M${x + BOX} ${middle[1]}h7v${-height / 2 - 3}H${x - 5}V${middle[1]}H${x}l-4 -3m4 3l-4 3`); // to the next step
      if (reads)
        wires.push(
          `M${encoded.x + BOX} ${encoded.y + encoded.height / 2}H${x - BETWEEN / 2}V${middle[1]}H${x}l-4 -3m4 3l-4 3`,
        );
      return [
        wires.map(d => s("path", { class: "wire", d })),
        s(
          "a",
          {
            href: `#${to}`,
            class: here ? "box here" : "box",
            "aria-current": here ? "step" : null,
            "aria-label": label,
          },
          s("rect", { x, y, width: BOX, height, rx: 6, class: kind }),
          s("text", { x: middle[0], y: middle[1] + 4, "text-anchor": "middle" }, text),
        ),
      ];
    });
  });
  const map = s(
    "svg",
    {
      class: "map",
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": "The model, as figure 1 of the paper",
    },
    frames,
    drawn,
  );
  map.style.maxWidth = `${Math.round(1.03 * width)}px`;
  return map;
}

/** The boxes of a stack: text, address, kind, height; `around` is the box at which a residual connection leaves. */
function mapColumn(e, stack, isLast) {
  const side = stack.name === "layers" ? "" : `${stack.name} `; // a GPT has one stack, which has no name
  const boxes = [];
  const box = (text, to, kind = "plain", height = 24, more = {}) =>
    boxes.push({ text, to, kind, height, label: side ? `${text}, ${stack.name}` : text, ...more });
  const second = e.structure.stacks.length > 1 && stack.name === "decoder";
  box(e.isImage ? "Patches" : "Tokens", second ? "shifted" : e.isImage ? "patches" : "tokens", "text");
  box("Embedding", second ? "shifted" : e.isImage ? "patches" : "embeddings", "embedding");
  if (stack.segments) box("+ Segments", "segments", "embedding");
  if (stack.positions !== "none")
    box(
      stack.concatenate ? "Positions beside" : "+ Positions",
      second ? "shifted" : "positions",
      "embedding",
    );
  if (stack.embeddingNorm) box("Norm", `input-norm:${stack.name}`, "norm", 18);
  const i = e.layers[stack.name]; // equal layers are drawn once
  if (stack.recurrent) {
    const carried = { inLayer: true, carried: true };
    if (stack.recurrent === "lstm")
      box("Cell", `memory:layers.${i}`, "recurrent", 24, { ...carried, label: `Cell, layer ${i + 1}` });
    box("State", `gates:layers.${i}`, "recurrent", 24, { ...carried, label: `State, layer ${i + 1}` });
  } else
    subLayers(stack, i).forEach(([name, text, to, kind], j) => {
      const where = `${side}layer ${i + 1}`;
      const residual = `add-norm:${stack.name}.layers.${i}.residual${j + 1}`;
      const first = boxes.length;
      const inLayer = true;
      if (stack.normFirst)
        box("Norm", residual, "norm", 18, { inLayer, label: `Norm before ${name}, ${where}` });
      box(text, to, kind, 24, { inLayer, label: `${text}, ${where}`, reads: name === "cross-attention" });
      const sum = stack.normFirst ? "Add" : "Add & norm";
      box(sum, residual, "norm", 18, {
        inLayer,
        label: `${sum} after ${name}, ${where}`,
        around: boxes[first],
      });
    });
  if (stack.layers > 1) boxes.at(-1).above = COUNT;
  if (stack.finalNorm)
    box("Norm", `final-norm:${stack.name}`, "norm", 18, { label: `Norm after the last ${side}layer` });
  if (isLast) {
    if (e.plan.get("logits").from[0].startsWith("head.")) box("Head", "head", "linear");
    box("Linear", "logits", "linear");
    box("Softmax", "probabilities", "softmax");
  }
  return boxes;
}

/** [name, text, address, kind] of each sub-layer of a layer. */
export function subLayers(stack, i) {
  const path = `${stack.name}.layers.${i}`;
  const own = stack.causal ? "Masked attention" : "Self-attention";
  return [
    ["self-attention", own, `attention:${path}.self_attention`, "attention"],
    stack.cross && ["cross-attention", "Cross-attention", `attention:${path}.cross_attention`, "attention"],
    ["feed forward", "Feed forward", `feed-forward:${path}.feed_forward`, "forward"],
  ].filter(Boolean);
}

/** The stages that are inside of an attention. */
function attentionStages(e) {
  const stages = [...ATTENTION_STAGES, "cross-attention"];
  return e.structure.stacks[0].positions === "none" ? [...stages, "positions"] : stages; // which act in the attention
}

/** Whether the place on the page is this box. */
function isHere(e, { to }) {
  const [address, path] = to.split(":");
  if (address === "attention" && e.screen === "alignment") return path === e.alignPath;
  if (address === "attention") return attentionStages(e).includes(e.screen) && path === e.path;
  const stack = e.normStack ?? e.structure.stacks.at(-1).name;
  if (e.isRecurrent && path) return e.screen === address && path === `layers.${e.layers.layers}`;
  const places = {
    "add-norm": e.residual,
    "feed-forward": e.forward,
    "input-norm": stack,
    "final-norm": stack,
  };
  return e.screen === address && (!path || path === places[address]);
}
