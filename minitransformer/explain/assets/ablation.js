// Each head off: how the loss of the right answer changes if one head alone gives 0. That is a forward pass a head,
// in slices of time, so that the page stays responsive; of a large model, only if the reader asks for it.

import { h, walkCells } from "../../../minigrad/graph/assets/dom.js";
import { range } from "./derive.js";
import { scrolling, titleOfPath } from "./elements.js";
import { threeDigits } from "./equation.js";
import { tint } from "./matrix.js";
import { createModel } from "./model/model.js";
import { decimalsFor, inTable, largestOf } from "./numbers.js";
import { isOff } from "./state.js";
import { update } from "./update.js";
import { closeWhatIf } from "./whatif.js";

const [SLICE, PAUSE] = [12, 150]; // milliseconds: of passes at once, and after a keystroke until the first

/** What is measured of the sentence that is shown: losses by `path:head`, and the heads that are `left`. */
function headMeasures(e) {
  const { source, target } = e.record;
  const [labels, positions] = [e.labels(), e.lossPositions()];
  const { ablated: _, ...others } = e.options; // what is switched off besides heads stays off
  const key = [e.isImage ? e.drawing : source, target, labels, positions, ...Object.values(others)].join("|");
  if (e.measures?.key !== key) {
    // those of the last attention first: their passes repeat what comes before it, which the weights remember
    const left = e
      .attentionPaths()
      .toReversed()
      .flatMap(path => range(e.stackOf(path).heads, i => [path, i]));
    const shown = e.measures?.left.length ? e.measures.shown : e.measures; // until the new ones are complete
    e.measures = {
      key,
      options: others,
      source,
      target,
      labels,
      positions,
      whole: null,
      losses: {},
      left,
      count: left.length,
      shown,
    };
  }
  if (e.measures.left.length && !e.measures.timer && (!e.isLarge || e.measures.isWanted))
    e.measures.timer = setTimeout(measureHeads, PAUSE, e, e.measures);
  return e.measures;
}

/** Passes for a while, of which the first is the whole model's; then the page has its turn. */
function measureHeads(e, measures) {
  measures.timer = null;
  const figure = document.querySelector(".each-head");
  if (e.measures !== measures || !figure) return; // another sentence, or another stage
  const { options, source, target, labels, positions, losses, left } = measures;
  e.measuring ??= createModel({ ...e.data, tokenizer: null }); // so that the page's model keeps what it remembers
  const lossWithout = ablated => {
    const all = e.measuring.losses(e.measuring.run({ source, target }, { ...options, ablated }), labels);
    return positions.reduce((sum, t) => sum + all[t], 0) / positions.length;
  };
  measures.whole ??= lossWithout({});
  const end = performance.now() + SLICE;
  while (left.length && performance.now() < end) {
    const [path, head] = left.shift();
    losses[`${path}:${head}`] = lossWithout({ [path]: [head] });
  }
  if (left.length) measures.timer = setTimeout(measureHeads, 0, e, measures);
  else measures.shown = null;
  update(figure, eachHeadParts(e));
}

/** Which attention: [its layer, its kind], "decoder layer 1" and "masked attention". */
function attentionOf(e, path) {
  const [, stack, layer] = path.match(/^(\w+)\.layers\.(\d+)\./);
  const kind = path.includes("cross")
    ? "cross-attention"
    : e.plan.get(`${path}.masked`).causal
      ? "masked attention"
      : "self-attention";
  return [`${e.isPair ? `${stack} ` : ""}layer ${Number(layer) + 1}`, kind];
}

export function headsOf(e, path, heads) {
  const numbers = heads.map(i => i + 1).sort((a, b) => a - b);
  const which =
    heads.length === 1
      ? `head ${numbers[0]}`
      : heads.length === e.stackOf(path).heads
        ? "all heads"
        : `heads ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;
  return `${which} of ${attentionOf(e, path).join("'s ")}`;
}

/** "decoder layer 1, masked"; of a stack with one attention a layer, the layer. */
function rowOfHeads(e, path) {
  const [layer, kind] = attentionOf(e, path);
  return e.stackOf(path).cross ? `${layer}, ${kind.split(/[ -]/)[0]}` : layer;
}

/** To the table, which is below the equation where the window is narrow. */
export function showEachHead(e) {
  closeWhatIf();
  e.go("heads");
  const table = document.querySelector(".each-head");
  table.querySelector("td button").focus({ preventScroll: true });
  table.scrollIntoView({ block: "nearest" });
}

export function eachHead(e) {
  return h("figure", { class: "each-head" }, eachHeadParts(e));
}

function measureAll(e, measures) {
  measures.isWanted = true;
  update(document.querySelector(".each-head"), eachHeadParts(e));
}

function eachHeadParts(e) {
  const measures = headMeasures(e);
  const isWaiting = measures.left.length > 0 && !measures.timer;
  const { losses, whole, left, count } = measures.left.length && measures.shown ? measures.shown : measures;
  const change = (path, i) => losses[`${path}:${i}`] - whole;
  const all = Object.keys(losses).sort((a, b) => losses[a] - losses[b]);
  const [least] = left.length ? [] : all;
  const largest = largestOf(all.map(key => losses[key] - whole));
  const columns = Math.max(...e.structure.stacks.map(({ heads }) => heads));
  const decimals = Math.max(3, decimalsFor(largest));
  const signed = x => `${x > 0 ? "+" : ""}${inTable(x, decimals)}`;
  const cellOf = (path, i) => {
    const off = isOff(e, path, i);
    const x = change(path, i);
    const known = !Number.isNaN(x);
    const says = `${headsOf(e, path, [i])}: ${known ? `loss ${whole.toFixed(4)} → ${losses[`${path}:${i}`].toFixed(4)}, ${signed(x)}` : "not measured yet"}`;
    const tell = event =>
      event.currentTarget.closest("figure").querySelector(".tells").replaceChildren(`Without ${says}.`);
    const td = h(
      "td",
      { class: `${path}:${i}` === least ? "least" : null },
      h(
        "button",
        {
          type: "button",
          "data-key": `off:${path}:${i}`,
          tabindex: path === e.attentionPaths()[0] && i === 0 ? 0 : -1,
          "aria-pressed": off ? "true" : "false",
          "aria-label": `Switch off ${says}`,
          onclick: () => switchHead(e, path, i),
          onfocus: tell,
          onpointerenter: tell,
        },
        off ? "off" : known && e.numbers ? signed(x) : "",
      ),
    );
    if (known) tint(td, x, { largest });
    return td;
  };
  return [
    h(
      "figcaption",
      h("h3", "Each head off"),
      h(
        "p",
        { role: "status" },
        isWaiting
          ? h(
              "button",
              { type: "button", "data-key": "measure-heads", onclick: () => measureAll(e, measures) },
              `Measure all ${count} heads`,
            )
          : left.length
            ? `Measuring: ${count - left.length} of ${count} heads.`
            : harmSentence(e, all, { losses, whole }),
      ),
    ),
    scrolling(
      "Each head off",
      h(
        "table",
        { class: measures.left.length ? "stale" : null, onkeydown: walkCells },
        h(
          "caption",
          { class: "unseen" },
          "The loss of the right answer with one head off, minus that of the whole model",
        ),
        h(
          "thead",
          h(
            "tr",
            h("th", { scope: "col" }, "head"),
            range(columns, i => h("th", { scope: "col" }, `${i + 1}`)),
          ),
        ),
        h(
          "tbody",
          e.attentionPaths().map(path =>
            h(
              "tr",
              { class: path === e.path ? "current" : null },
              h(
                "th",
                { scope: "row" },
                h("a", { href: `#heads:${path}`, title: titleOfPath(path) }, rowOfHeads(e, path)),
              ),
              range(e.stackOf(path).heads, i => cellOf(path, i)),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "hint tells" },
      "How the loss changes: orange up, blue down. Click a cell to switch the head off.",
    ),
  ];
}

/** Which head can be removed, and which cannot. */
function harmSentence(e, all, { losses, whole }) {
  const says = key => {
    const [path, i] = key.split(":");
    const x = losses[key] - whole;
    return [headsOf(e, path, [Number(i)]), `${x < 0 ? "falls" : "rises"} by ${threeDigits(Math.abs(x))}`];
  };
  const [least, most] = [says(all[0]), says(all.at(-1))];
  return [h("b", "Least harm: "), `${least[0]}: the loss ${least[1]}. Most: ${most[0]}: it ${most[1]}.`];
}

export function switchHead(e, path, i) {
  const off = e.options.ablated[path] ?? [];
  const next = off.includes(i) ? off.filter(each => each !== i) : [...off, i];
  e.set({ options: { ...e.options, ablated: { ...e.options.ablated, [path]: next } } });
}
