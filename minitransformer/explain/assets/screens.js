// The stages in their order, and how an address leads to one.

import { flat, h } from "../../../minigrad/graph/assets/dom.js";
import { addressOf, hasAddress, remember, restore } from "./address.js";
import {
  alignmentScreen,
  attentionScreen,
  headsScreen,
  maskScreen,
  qkvScreen,
  scaleScreen,
  scoresScreen,
  softmaxScreen,
  weightedSumScreen,
} from "./attention.js";
import { documentsScreen } from "./documents.js";
import { ATTENTION_STAGES, unitOf } from "./elements.js";
import { readout } from "./equation.js";
import { looksScreen, stageImage } from "./image.js";
import { backwardScreen } from "./journey.js";
import {
  addNormScreen,
  feedForwardScreen,
  forwardPaths,
  layersScreen,
  outputHeadScreen,
  residualPaths,
} from "./layers.js";
import { lossScreen, pullScreen } from "./loss.js";
import { inLayer } from "./map.js";
import { beamsScreen, logitsScreen, nextWordScreen, probabilitiesScreen } from "./output.js";
import { moveEquation } from "./motion.js";
import { closeWhatIf } from "./parts.js";
import { stopMotion } from "./play.js";
import { finalNormScreen, inputNormScreen, positionsScreen, segmentsScreen } from "./positions.js";
import { recurrentStages } from "./recurrent.js";
import { pictureScreen } from "./stage.js";
import { paintStage } from "./stagepaint.js";
import { update } from "./update.js";
import { embeddingsScreen, patchesScreen, shiftedScreen, tokensScreen } from "./words.js";

/** The stages inside of a Transformer's layer. */
const TRANSFORMERS = [...ATTENTION_STAGES, "add-norm", "feed-forward"];

/** Which stages a model has. Addresses are stable: `page.html#positions`. */
export function makeScreens(e) {
  const { stacks, output } = e.structure;
  const text = !e.isImage;
  const writes = !output.head;
  const chapters = {
    "": [["walkthrough", "Overview", pictureScreen]],
    Input: [
      text && ["tokens", "Text to tokens", tokensScreen],
      text && ["embeddings", "Tokens to vectors", embeddingsScreen],
      !text && ["patches", "Image to patches", patchesScreen],
      stacks[0].segments && ["segments", "Segments", segmentsScreen],
      (stacks[0].positions !== "none" || stacks[0].rotary || stacks[0].bias) && [
        "positions",
        "Positions",
        positionsScreen,
      ],
      stacks[0].embeddingNorm && ["input-norm", "The norm of the input", inputNormScreen],
    ],
    Attention: [
      ["attention", "Attention in four steps", attentionScreen],
      ["qkv", "Queries, keys, values", qkvScreen],
      ["scores", "Scores", scoresScreen],
      ["scale", "Scaling", scaleScreen],
      e.attentionPaths().some(path => hides(e, path) || hasBias(e, path)) && ["mask", "Mask", maskScreen],
      ["softmax", "Softmax", softmaxScreen],
      ["weighted-sum", "Weighted sum", weightedSumScreen],
      ["heads", "Multiple heads", headsScreen],
      !text && ["looks", "Where it looks", looksScreen],
    ],
    Layers: [
      ...(e.isRecurrent ? recurrentStages(e) : []),
      ["add-norm", "Add & norm", addNormScreen],
      ["feed-forward", "Feed forward", feedForwardScreen],
      ["layers", "Layer by layer", layersScreen],
      e.isPair && ["shifted", "What the decoder reads", shiftedScreen],
      e.isPair && ["cross-attention", "Cross-attention", crossAttentionScreen],
      e.isPair && ["alignment", "Alignment", alignmentScreen],
    ],
    Output: [
      stacks.some(stack => stack.finalNorm) && ["final-norm", "The last norm", finalNormScreen],
      e.plan.get("logits").from[0].startsWith("head.") && ["head", "Before the logits", outputHeadScreen],
      ["logits", "Logits", logitsScreen],
      ["probabilities", writes ? `The next ${unitOf(e)}` : "Probabilities", probabilitiesScreen],
      writes && ["next-word", "Step by step", nextWordScreen],
      writes && ["beams", "Beam search", beamsScreen],
    ],
    Learning: [
      ["loss", "The loss", lossScreen],
      ["pull", "What each loss depends on", pullScreen],
      ["backward", "The backward pass", backwardScreen],
      e.data.documents && ["documents", "Examples worked by hand", documentsScreen],
    ],
  };
  const isThere = each => each && !(e.isRecurrent && TRANSFORMERS.includes(each[0]));
  return Object.entries(chapters).flatMap(([chapter, stages]) =>
    stages.filter(isThere).map(([address, title, render]) => ({ address, title, chapter, render })),
  );
}

/** `#softmax:decoder.layers.0.self_attention` to a stage and its place, and to its state if it has one. */
export function follow(e, hash) {
  const [place, state] = hash.replace(/^#/, "").split("?");
  const [address, path] = place.replace(/%3A/i, ":").split(":");
  const found = e.screens.find(screen => screen.address === address);
  if (!found) return false;
  const changed = address !== e.screen;
  if (changed || state !== undefined) stopMotion();
  if (changed) closeWhatIf();
  if (changed) e.mapOver = false; // over a picture, the map covers what one has chosen
  if (changed)
    Object.assign(e, {
      cell: null,
      opened: null,
      play: { at: e.backward && address === "walkthrough" ? 1 : 0.5, step: null, share: 1, running: false },
    });
  if (state !== undefined) restore(e, new URLSearchParams(state));
  const changes = { screen: address };
  if (address === "alignment") {
    changes.alignPath = path?.includes("cross") && e.attentionPaths().includes(path) ? path : e.alignPath;
  }
  const [, stack, layer] = (changes.alignPath ?? path)?.match(/^(\w+)\.layers\.(\d+)\./) ?? [];
  if (stack in e.layers && Number(layer) < e.structure.stacks.find(each => each.name === stack).layers) {
    changes.layers = { ...e.layers, [stack]: Number(layer) };
    if (!changes.alignPath) Object.assign(changes, inLayer(e, stack, Number(layer)));
  }
  const [, recurrentLayer] = (e.isRecurrent && path?.match(/^layers\.(\d+)$/)) || [];
  if (Number(recurrentLayer) < e.structure.stacks[0].layers)
    changes.layers = { layers: Number(recurrentLayer) };
  if (address === "mask" && !path && !hides(e, e.path))
    changes.path = e.attentionPaths().find(each => hides(e, each)) ?? e.path;
  if (address !== "alignment" && e.attentionPaths().includes(path)) changes.path = path;
  if (e.structure.stacks.some(stack => stack.name === path)) changes.normStack = path;
  if (path && residualPaths(e).includes(path)) changes.residual = path;
  if (path && forwardPaths(e).includes(path)) changes.forward = path;
  e.set({ ...changes, quiz: null });
  if (changed) {
    window.scrollTo(0, 0);
    moveEquation(e);
  }
  return true;
}

export function stepScreen(e, by) {
  const at = e.screens.findIndex(screen => screen.address === e.screen) + by;
  if (e.screens[at]) e.go(e.screens[at].address);
}

export function renderScreen(e) {
  const at = e.screens.findIndex(screen => screen.address === e.screen);
  const screen = e.screens[at];
  const { thought, choices, body, beside, below, picture } = screen.render(e);
  const before = e.screens[at - 1];
  const after = e.screens[at + 1];
  const main = document.getElementById("screen");
  const image = e.isImage && !["walkthrough", "looks", "pull"].includes(e.screen) ? stageImage(e) : null;
  const isAside = beside && window.innerWidth >= 1280; // the image has its place at the side
  const content = picture
    ? flat(picture)
    : flat([
        h(
          "div",
          { class: "title" },
          h("h2", { id: screen.address }, screen.title),
          h(
            "nav",
            { class: "turn", "aria-label": "Previous and next stage" },
            before
              ? h(
                  "a",
                  {
                    href: `#${before.address}`,
                    title: before.title,
                    "aria-label": `Previous: ${before.title}`,
                  },
                  "← ",
                  h("span", before.title),
                )
              : null,
            h("span", { class: "count" }, `${at + 1} of ${e.screens.length}`),
            after
              ? h(
                  "a",
                  { href: `#${after.address}`, title: after.title, "aria-label": `Next: ${after.title}` },
                  h("span", after.title),
                  " →",
                )
              : null,
          ),
        ),
        isAside ? null : image,
        h("p", { class: "thought" }, thought),
        choices,
        beside
          ? h(
              "div",
              { class: "with-side" },
              h("div", body, below ? readout(e) : null),
              h("div", { class: "beside" }, isAside ? image : null, beside),
            )
          : [body, below ? readout(e) : null],
        below && e.numbers ? h("section", { class: "below" }, below()) : null,
        h(
          "nav",
          { class: "turn", "aria-label": "Next and previous stage" },
          before ? h("a", { href: `#${before.address}`, rel: "prev" }, `← ${before.title}`) : h("span"),
          after ? h("a", { href: `#${after.address}`, rel: "next" }, `${after.title} →`) : h("span"),
        ),
      ]);
  if (main.querySelector("h2")?.id === screen.address) update(main, content);
  else main.replaceChildren(...content);
  document.body.classList.toggle("picturing", Boolean(picture));
  if (picture) paintStage(e);
}

/** Whether an attention hides later tokens. */
function hides(e, path) {
  return e.plan.get(`${path}.masked`).causal;
}

/** Whether an attention adds a bias for the distance of two tokens. */
function hasBias(e, path) {
  return e.plan.get(`${path}.masked`).from.length > 1;
}

function crossAttentionScreen(e) {
  return {
    ...attentionScreen(e),
    thought:
      "Here the decoder reads the input: the queries come from the decoder, the keys and values from the encoder. The four steps are the same.",
  };
}

/** Go to an address, at once: a key that is held down skips no stage. The view that is left stays in the history. */
export function go(e, address) {
  remember(e);
  if (!hasAddress) location.hash = address;
  if (!follow(e, `#${address}`) || !hasAddress) return;
  const next = addressOf(e);
  if (next !== (location.hash || "#walkthrough")) history.pushState(addressOf(e, true), "", next);
  e.followed = location.hash;
}

/** To the view of the address, which Back and Forward lead to, or which the reader typed. */
export function followHistory(e) {
  if (location.hash === e.followed) return;
  e.followed = location.hash;
  follow(e, history.state ?? (location.hash || "#walkthrough"));
}
