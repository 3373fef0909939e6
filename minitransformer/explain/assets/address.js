// The whole state in the address, so that a copied link opens the same view: `#stage:place?text=...&head=2`.

import { announce, h } from "../../../minigrad/graph/assets/dom.js";
import { ATTENTION_STAGES } from "./elements.js";
import { longDrawing, shortDrawing } from "./pixels.js";

export const SWITCHES = ["causal", "positions", "scale", "memory"];

/** What one has chosen, as texts; places, heads and layers count from 1, the indices of `cell` and windows from 0. */
function stateOf(e) {
  const { options, sampling } = e;
  const off = Object.entries(options.ablated).filter(([, heads]) => heads.length);
  return {
    text: e.text,
    target: e.target ?? "",
    twin: e.twin ?? "",
    draw: e.drawing ? shortDrawing(e.drawing) : "",
    off: SWITCHES.filter(key => !options[key]).join(","),
    heads: off.map(([path, heads]) => [path, ...heads.map(i => i + 1)].join("-")).join(","),
    step: `${e.step + 1}`,
    loss: e.chosen ? e.chosen.map(t => t + 1).join(",") : "all",
    temperature: `${sampling.temperature}`,
    top_k: `${sampling.topK}`,
    top_p: `${sampling.topP}`,
    path: e.path ?? "",
    head: `${e.head + 1}`,
    query: e.query === undefined ? "" : `${e.query + 1}`,
    letter: e.letter ?? "q",
    layers: Object.values(e.layers)
      .map(i => i + 1)
      .join(","),
    gradients: e.backward ? "on" : "",
    right: e.wanted && !e.wanted.isGuess ? `${e.wanted.t + 1}-${e.wanted.id}` : "", // at a place of the backward stage
    ...viewState(e),
  };
}

/** What of it is a matter of display alone. */
function viewState(e) {
  const { at, step, running } = e.play;
  return {
    moment: `${running ? 500 : Math.round(1000 * at)}`, // in thousandths of the time line; also where there is no such step of the walk
    walk: step ?? "",
    open: e.opened ?? "",
    detail: e.detail ? "on" : "",
    cell: e.cell ? shortPlace(e.cell) : "",
    numbers: e.numbers ? "on" : "",
    weights: e.openWeights ? "on" : "",
    compare: e.compares ? "on" : "",
    attention: e.asHeat === null ? "" : e.asHeat ? "heat" : "arcs",
    lines: e.pictureHead === null ? "" : `${e.pictureHead + 1}`,
    align: e.alignHead === undefined ? "" : `${e.alignHead + 1}`,
    stack: e.lensStack ?? "",
    word: `${e.word + 1}`,
    wave: `${e.wave}`,
    unit: `${e.unit}`,
    beams: `${e.beamCount}`,
    windows: Object.entries(e.windows)
      .map(([key, first]) => `${key.replace("rows ", "r")}-${first}`)
      .join(","),
  };
}

/** A number of the model: `decoder.input-2-5`; with `-g` its gradient, with `-w` a weight. */
function shortPlace({ name, index, gradient, weight }) {
  return [name, ...index, `${weight ? "w" : ""}${gradient ? "g" : ""}`].filter(part => part !== "").join("-");
}

/** The place that a text names; null if there is none. */
function longPlace(e, text) {
  const [, name, numbers, kind = ""] = /^([^-]+)((?:-\d+)+)(?:-(wg?|g))?$/.exec(text) ?? [];
  if (!name) return null;
  const index = numbers.slice(1).split("-").map(Number);
  const [gradient, weight] = [kind.endsWith("g"), kind.startsWith("w")];
  const pass = gradient ? e.gradients() : null;
  const arrays = weight ? (pass?.weights ?? e.weights) : (pass?.activations ?? e.record.arrays);
  const { shape } = Object.hasOwn(arrays, name) ? arrays[name] : { shape: [] };
  const isThere = index.length === shape.length && index.every((i, axis) => i < shape[axis]);
  return isThere ? { name, index, gradient, weight } : null;
}

/** The place that a stage's address has after its name: `#softmax:encoder.layers.0.self_attention`. */
function placeKeyOf(screen) {
  const places = {
    "add-norm": "residual",
    "feed-forward": "forward",
    "input-norm": "normStack",
    "final-norm": "normStack",
    alignment: "alignPath",
  };
  return (
    places[screen] ?? ([...ATTENTION_STAGES, "looks", "cross-attention"].includes(screen) ? "path" : null)
  );
}

/** The address of what is shown: of a link that is copied with its text, else only with what differs from the start. */
export function addressOf(e, isCopied = false) {
  const key = placeKeyOf(e.screen);
  const place = key && e[key] && (isCopied || e[key] !== e.start.places[key]) ? `:${e[key]}` : "";
  const state = stateOf(e);
  const isOther = state.text !== e.start.state.text; // then the place and the losses depend on it
  const differs = ([name, value]) =>
    value !== e.start.state[name] || (isOther && ["step", "loss"].includes(name));
  const isNamed = ([name]) => name === "path" && place && key === "path";
  const given = Object.entries(state).filter(each => differs(each) && !isNamed(each));
  if (isCopied && !isOther && !e.isImage) given.unshift(["text", state.text]);
  return `#${e.screen}${place}${given.length || isCopied ? `?${new URLSearchParams(given)}` : ""}`;
}

export const hasAddress = location.protocol !== "about:"; // a notebook's frame has none

/** Keeps the address up to date, a little later: a browser slows down pages that change it too often. */
export function keepAddress(e) {
  clearTimeout(e.addressTimer);
  e.addressTimer = setTimeout(() => remember(e), 300);
}

/** The address of this view; and with it in the browser's history the whole view, so that Back shows it again. */
export function remember(e) {
  clearTimeout(e.addressTimer);
  const whole = addressOf(e, true);
  if (!hasAddress || history.state === whole || location.hash !== e.followed) return; // another view is about to be shown
  const address = addressOf(e);
  history.replaceState(whole, "", address === (location.hash || "#walkthrough") ? location.href : address);
  e.followed = location.hash;
}

/** What a page starts with, which its address need not name. */
export function rememberStart(e) {
  const places = Object.fromEntries(
    ["residual", "forward", "normStack", "alignPath", "path"].map(key => [key, e[key]]),
  );
  e.start = { state: stateOf(e), places };
}

/** Takes up the state of an address; what it does not name is as at the start, what cannot be is left out. */
export function restore(e, given) {
  const read = key => given.get(key) ?? e.start.state[key];
  const count = (text, below) =>
    /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= below ? Number(text) - 1 : null;
  const number = (key, low, high) => {
    const x = Number(read(key));
    return Math.min(high, Math.max(low, Number.isFinite(x) ? x : Number(e.start.state[key])));
  };
  const off = read("off").split(",");
  const paths = e.attentionPaths();
  const ablated = {};
  for (const [path, ...heads] of read("heads")
    .split(",")
    .map(each => each.split("-"))) {
    if (paths.includes(path))
      ablated[path] = heads.map(i => count(i, e.stackOf(path).heads)).filter(i => i !== null);
  }
  Object.assign(e, e.start.places, {
    text: read("text"),
    target: read("target") || null,
    twin: read("twin") || null,
    drawing: e.isImage ? longDrawing(read("draw"), e.data.config.image_size) : null,
    options: { ...Object.fromEntries(SWITCHES.map(key => [key, !off.includes(key)])), ablated },
    sampling: {
      temperature: number("temperature", 0.1, 3),
      topK: Math.round(number("top_k", 0, 20)),
      topP: number("top_p", 0.05, 1),
    },
    chosen: null,
    gaps: null,
    prompt: 0,
    drawn: null,
    wanted: null,
    backward: read("gradients") === "on",
  });
  e.compute();
  const length = e.labels().length;
  if (given.has("step") || !given.has("text")) e.step = count(read("step"), length) ?? e.step;
  if (given.has("loss") || !given.has("text")) {
    const chosen = read("loss")
      .split(",")
      .map(t => count(t, length))
      .filter(t => t !== null);
    e.chosen = chosen.length ? chosen : null;
  }
  const [place, id] = read("right").split("-");
  const t = count(place, length);
  const isWord = /^\d+$/.test(id) && Number(id) < e.record.arrays.logits.shape[1];
  e.want(e.lossPositions().includes(t) && isWord ? { t, id: Number(id) } : null);
  e.path = paths.includes(read("path")) ? read("path") : e.path;
  e.head = (e.path && count(read("head"), e.stackOf(e.path).heads)) ?? 0;
  e.query = count(read("query"), Infinity) ?? undefined;
  e.letter = ["q", "k", "v"].includes(read("letter")) ? read("letter") : "q";
  const layers = read("layers").split(",");
  e.layers = Object.fromEntries(
    e.structure.stacks.map(({ name, layers: most }, i) => [name, count(layers[i] ?? "", most) ?? 0]),
  );
  restoreView(e, read, count);
}

/** Of the state, what is a matter of display alone. */
function restoreView(e, read, count) {
  const { stacks } = e.structure;
  const whole = (text, most) => (/^\d+$/.test(text) ? Math.min(most, Number(text)) : 0);
  const mostHeads = Math.max(...stacks.map(({ heads = 1 }) => heads));
  Object.assign(e, {
    play: { at: whole(read("moment"), 1000) / 1000, step: read("walk") || null, share: 1, running: false },
    opened: read("open") || null,
    detail: read("detail") === "on",
    cell: longPlace(e, read("cell")),
    numbers: read("numbers") === "on",
    openWeights: read("weights") === "on",
    compares: read("compare") === "on",
    asHeat: read("attention") === "heat" ? true : read("attention") === "arcs" ? false : null,
    pictureHead: count(read("lines"), mostHeads),
    alignHead: count(read("align"), mostHeads) ?? undefined,
    lensStack: stacks.find(({ name }) => name === read("stack"))?.name,
    word: count(read("word"), Infinity) ?? 0,
    wave: whole(read("wave"), Infinity),
    unit: whole(read("unit"), Infinity),
    beamCount: Math.max(2, whole(read("beams"), 5)),
    windows: Object.fromEntries(
      [...read("windows").matchAll(/(r?\d+)-(\d+)/g)].map(([, key, first]) => [
        key.replace("r", "rows "),
        Number(first),
      ]),
    ),
  });
}

/** Puts a link to this view on the clipboard; where that is refused, it stands selected in a field. */
export async function copyLink(e) {
  const link = location.href.split("#")[0] + addressOf(e, true);
  try {
    await navigator.clipboard.writeText(link);
    const isFile = location.protocol === "file:";
    const notice = isFile
      ? "Copied. The link opens on this computer only: to show it to others, send the file, and the link from its # on."
      : "";
    e.set({ copied: true, notice });
    announce("The link to this view is copied.");
  } catch {
    e.set({ link });
    document.getElementById("link").select();
  }
}

export function linkField(e) {
  return e.link
    ? h(
        "label",
        { class: "link-field" },
        "Link to this view, to copy ",
        h("input", { id: "link", readonly: true, value: e.link, "data-key": "link" }),
      )
    : null;
}
