// What if: the parts that can be off, in one list, and how the loss of the right answer changes without each alone.
// That is a forward pass a part, in slices of time, so that the page stays responsive; of a large model, only if the
// reader asks for it.

import { flat, h, walkCells } from "../../../minigrad/graph/assets/dom.js";
import { SWITCHES } from "./address.js";
import { headClass } from "./colours.js";
import { range } from "./derive.js";
import { attentionOf, headsOf, hint, scrolling, titleOfPath, unitOf } from "./elements.js";
import { tint } from "./matrix.js";
import { createModel } from "./model/model.js";
import { decimalsFor, inTable, largestOf } from "./numbers.js";
import { checkbox } from "./pictures.js";
import { isOff } from "./state.js";
import { update } from "./update.js";
import { lossChange, positionsIn } from "./whatif.js";

const [SLICE, PAUSE] = [12, 150]; // milliseconds: of passes at once, and after a keystroke until the first

/** The button that opens the list, and the list if it is open. */
export function whatIfMenu(e, isOpen) {
  const off = SWITCHES.filter(key => !e.options[key]).length + Object.values(e.options.ablated).flat().length;
  const toggle = event => {
    event.preventDefault(); // it is open before its list is made
    const menu = event.currentTarget.parentElement;
    menu.open = !menu.open;
    e.show();
  };
  return [
    h("summary", { "data-key": "what-if", onclick: toggle }, off ? `What if (${off})` : "What if"),
    isOpen ? h("div", { class: "parts" }, listOfParts(e)) : null,
  ];
}

/** Closes it; whether it was open. */
export function closeWhatIf() {
  const menu = document.querySelector(".switches[open]");
  if (menu) menu.open = false;
  return Boolean(menu);
}

function switchHead(e, path, i) {
  const off = e.options.ablated[path] ?? [];
  const next = off.includes(i) ? off.filter(each => each !== i) : [...off, i];
  e.set({ options: { ...e.options, ablated: { ...e.options.ablated, [path]: next } } });
}

/** What this model has besides heads: [key, label]. */
function switchesOf(e) {
  const { stacks } = e.structure;
  return [
    stacks.some(stack => stack.causal) && ["causal", "Causal mask"],
    e.isRecurrent && ["memory", `Memory: the state of the ${unitOf(e)} before`],
    !e.isRecurrent && ["positions", "Positions"],
    !e.isRecurrent && stacks[0].scale !== 1 && ["scale", "Scaling by 1/√d_k"],
  ].filter(Boolean);
}

/** Losses of the whole model's answer without a part, by `causal` or `path:head`, and the parts that are `left`. */
function measuresOf(e) {
  const { source, target, labels } = e.before?.reading ?? { ...e.record, labels: e.labels() };
  const positions = positionsIn(e, labels);
  const key = [e.isImage ? e.drawing : source, target, labels, positions].join("|");
  if (e.measures?.key !== key) {
    const heads = e.attentionPaths().flatMap(path => range(e.stackOf(path).heads, i => `${path}:${i}`));
    // those of the last attention first: their passes repeat what comes before it, which the weights remember
    const left = [...heads.toReversed(), ...switchesOf(e).map(([part]) => part)];
    e.measures = { key, source, target, labels, positions, losses: {}, left, count: left.length };
  }
  if (e.measures.left.length && !e.measures.timer && (!e.isLarge || e.measures.isWanted))
    e.measures.timer = setTimeout(measure, PAUSE, e, e.measures);
  return e.measures;
}

/** Passes for a while, of which the first is the whole model's; then the page has its turn. */
function measure(e, measures) {
  measures.timer = null;
  const list = document.querySelector(".switches[open] .parts");
  if (e.measures !== measures || !list) return; // another sentence, or the list is closed
  const { source, target, labels, positions, losses, left } = measures;
  e.measuring ??= createModel({ ...e.data, tokenizer: null }); // so that the page's model keeps what it remembers
  const lossWith = options => {
    const all = e.measuring.losses(e.measuring.run({ source, target }, options), labels);
    return positions.reduce((sum, t) => sum + all[t], 0) / positions.length;
  };
  measures.whole ??= lossWith({});
  const end = performance.now() + SLICE;
  while (left.length && performance.now() < end) {
    const part = left.shift();
    const [path, head] = part.split(":");
    losses[part] = lossWith(head ? { ablated: { [path]: [Number(head)] } } : { [path]: false });
  }
  if (left.length) measures.timer = setTimeout(measure, 0, e, measures);
  update(list, flat(listOfParts(e)));
}

function listOfParts(e) {
  const measures = measuresOf(e);
  const { losses, whole } = measures;
  const changeOf = part => losses[part] - whole;
  const decimals = Math.max(3, decimalsFor(largestOf(Object.keys(losses).map(changeOf))));
  const change = part => (changeOf(part) > 0 ? "+" : "") + inTable(changeOf(part), decimals);
  const heads = Object.keys(losses).filter(part => part.includes(":")); // the least needed first
  heads.sort((a, b) => losses[a] - losses[b]);
  const { options } = e;
  return [
    h(
      "div",
      hint("How the loss changes without:"),
      switchesOf(e).map(([key, label]) =>
        h(
          "p",
          checkbox(label, options[key], on => e.set({ options: { ...options, [key]: on } }), key),
          h("output", key in losses ? change(key) : ""),
        ),
      ),
      e.before
        ? [
            h("p", "Loss now ", h("b", { class: "loss-change" }, lossChange(e))),
            h(
              "button",
              {
                type: "button",
                "data-key": "restore",
                onclick: () =>
                  e.set({
                    options: { causal: true, positions: true, scale: true, memory: true, ablated: {} },
                  }),
              },
              "Restore the model",
            ),
          ]
        : null,
    ),
    h(
      "div",
      e.isRecurrent ? null : headTable(e, measures, heads, change),
      h("p", measures.left.length ? {} : { role: "status" }, measured(e, measures)),
    ),
  ];
}

/** How far the measuring is; then, how to read the table. */
function measured(e, measures) {
  const { left, count, timer } = measures;
  if (left.length && !timer)
    return h(
      "button",
      {
        type: "button",
        "data-key": "measure",
        onclick: () => {
          measures.isWanted = true;
          e.show();
        },
      },
      `Measure all ${count} parts`,
    );
  if (left.length) return `Measuring: ${count - left.length} of ${count} parts.`;
  return e.isRecurrent ? null : "Framed: the head that is needed least. Select a cell to switch one off.";
}

/** A row for each attention, a cell for each head: select one to switch it off. */
function headTable(e, { losses, whole, left }, heads, change) {
  const largest = largestOf(heads.map(part => losses[part] - whole));
  const cellOf = (path, i) => {
    const part = `${path}:${i}`;
    const off = isOff(e, path, i);
    const isKnown = part in losses;
    const says = `${headsOf(e, path, [i])}: ${isKnown ? `loss ${whole.toFixed(4)} → ${losses[part].toFixed(4)}, ${change(part)}` : "not measured yet"}`;
    const td = h(
      "td",
      { class: !left.length && part === heads[0] ? "least" : null },
      h(
        "button",
        {
          type: "button",
          "data-key": `off:${part}`,
          tabindex: path === e.attentionPaths()[0] && i === 0 ? 0 : -1,
          "aria-pressed": off ? "true" : "false",
          "aria-label": `Switch off ${says}`,
          title: says,
          onclick: () => switchHead(e, path, i),
        },
        off ? "off" : isKnown ? change(part) : "",
      ),
    );
    if (isKnown) tint(td, losses[part] - whole, { largest });
    return td;
  };
  return scrolling(
    "Each head off",
    h(
      "table",
      { onkeydown: walkCells },
      h("caption", { class: "unseen" }, "How the loss of the right answer changes with one head off"),
      h(
        "thead",
        h(
          "tr",
          h("th", { scope: "col" }, "head"),
          range(Math.max(...e.structure.stacks.map(stack => stack.heads)), i =>
            h("th", { scope: "col", class: headClass(i) }, `${i + 1}`),
          ),
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
  );
}

/** "decoder layer 1, masked"; of a stack with one attention a layer, the layer. */
function rowOfHeads(e, path) {
  const [layer, kind] = attentionOf(e, path);
  return e.stackOf(path).cross ? `${layer}, ${kind.split(/[ -]/)[0]}` : layer;
}
