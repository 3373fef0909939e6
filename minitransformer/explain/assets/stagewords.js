// What the slow walk says of each block, the equation that a block opens to, and the steps of the backward pass.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { attentionFormula } from "./attention.js";
import { describe, isThere, range } from "./derive.js";
import { answerUnit, hint, shownToken, unitOf, unitsOf, withRoles } from "./elements.js";
import { equation } from "./equation.js";
import { forwardFormula } from "./layers.js";
import { brief, norm } from "./numbers.js";
import { samplingSliders } from "./output.js";
import { headButtons } from "./pictures.js";
import { READ, WRITTEN, lightOf } from "./play.js";
import { recurrentEquation, recurrentSentence } from "./recurrent.js";
import { isPromptRow, writesAfter } from "./stage.js";
import { embeddingArrays, hasLines, shownHead, standsFor, wordsOf } from "./stageblocks.js";
import { stageView } from "./stagepaint.js";
import { bestLabelsOf, isOff, largestIndices } from "./state.js";
import { whatChanged } from "./whatif.js";
import { opening } from "./words.js";

/** A sentence for a step of the slow walk. */
export function sentenceOf(e, { block, isBack }) {
  return isBack ? backSentence(e, block) : frontSentence(e, block);
}

function frontSentence(e, block) {
  const [unit, units] = [unitOf(e), unitsOf(e)];
  const stack = e.structure.stacks.find(each => each.name === block.stack);
  if (block.id === "probabilities")
    return `The last state becomes a score for each ${answerUnit(e)}, and softmax turns the scores into probabilities.`;
  if (block.kind === "text")
    return e.isImage
      ? "The image is cut into patches."
      : block.side === "target"
        ? `The decoder reads what is written so far, behind a start token.`
        : `The text is cut into ${units}.`;
  if (block.kind === "embedding") {
    return block.array === embeddingArrays(e, stack)[0]
      ? `Each ${unit} becomes a learned vector of ${stack.width} numbers: a strip of cells, orange above 0 and blue below.`
      : `${stack.segments ? "Vectors of its segment and its position are added" : `A vector of its position ${stack.concatenate ? "is put beside it" : "is added"}`}, so that the order of the ${units} counts.`;
  }
  if (block.kind === "attention" && block.attention) {
    if (block.parts) return `Each ${unit} takes up what it needs from others, and is processed by itself.`;
    if (block.attention.includes("cross"))
      return `Each new ${unit} looks at the whole input: lines from the encoder's output, as wide as the attention.`;
    return stack.causal
      ? `Each ${unit} looks at itself and at those before it.`
      : `Each ${unit} looks at all others: the ${hasLines(e, block.attention) ? "wider a line" : "stronger a cell"}, the more it takes from there.`;
  }
  if (block.carried) return recurrentSentence(e, block);
  if (block.kind === "forward")
    return `Each ${unit} goes through a wide hidden layer of ${block.size} numbers, by itself.`;
  if (block.around)
    return stack.normFirst
      ? "What the sub-layer gives is added to its input."
      : "What the sub-layer gives is added to its input, and each row is brought to one scale.";
  return "Each row is brought to the same scale.";
}

/** What happens at a moment of Play. */
export function captionOf(e, view, light) {
  const { at } = e.play;
  const last = view.layout.columns.at(-1);
  const pointed = view.word;
  if (at === 0.5 && pointed && writesAfter(e, view.layout.columns[pointed.column].stack.name, pointed.t)) {
    const read = wordsOf(e, last.blocks[0].side)[pointed.t];
    return `After reading “${read}”, it writes “${shownToken(e.wordOf(largestIndices(e.logitsAt(pointed.t), 1)[0]))}”: these lines belong to both. Click to see why.`;
  }
  if (at === 0.5 && !e.play.running) return e.before ? whatChanged(e) : opening(e);
  if (light.loss > 0) {
    const reached = view.schedule.back.findLast(block => block.array && light.backward(block) > 0);
    if (!reached)
      return `The loss: −log of the probability of each right ${answerUnit(e)}. Its gradient says which way each number should have moved.`;
    return at >= 0.99
      ? "The gradient has reached the vectors that training changes."
      : `The gradient flows back: ${reached.label}. The brighter, the larger.`;
  }
  const words = wordsOf(e, last.blocks[0].side);
  const t = range(last.blocks[0].count, i => i).find(i => !isPromptRow(e, i) && light.output(i) < 1);
  const isReading =
    last.blocks.every(block => !block.array || light.forward(block, last.blocks[0].count - 1) === 0) &&
    light.output(Math.max(0, t ?? 0)) === 0;
  if (at === 0 || (e.isPair && at < READ))
    return e.isPair
      ? "The encoder reads the whole input at once, block by block."
      : e.isImage
        ? "All patches go through the blocks at once."
        : `The ${unitsOf(e)} go through the blocks.`;
  if (t === undefined || e.structure.output.head)
    return isReading || at < WRITTEN
      ? `The ${unitsOf(e)} go through the blocks, and take up what they need from each other.`
      : "The last state becomes the answer.";
  const word = shownToken(e.wordOf(largestIndices(e.logitsAt(t), 1)[0]));
  if (view.schedule.travelling(at)) return `“${words[t]}” was written: it becomes the next input.`;
  return light.output(t) > 0
    ? `After “${words[t]}” it writes “${word}”.`
    : `“${words[t]}” goes up through the blocks: what comes after it?`;
}

export function backSentence(e, block) {
  if (block.id === "probabilities")
    return `The loss is −log of the probability of the right ${answerUnit(e)}: its gradient at the logits is p − y, divided by their number.`;
  const { activations } = e.gradients();
  const size = norm(activations[block.array].data);
  const stack = e.structure.stacks.find(each => each.name === block.stack);
  const lost = stack.norm?.kind === "layer" ? "shift or scale" : "scale";
  const says = {
    attention: `The gradient goes to whatever was attended to${block.attention && hasLines(e, block.attention) ? ", along the same lines" : ""}.`,
    forward: "It passes the hidden layer where that was active.",
    norm: block.around
      ? "A sum passes it on to both its terms: through the sub-layer, and around it."
      : `The norm leaves out what would only ${lost} a row.`,
    recurrent: "It comes from above, and from the next step: back through time.",
    embedding: "Here it reaches the vectors that training changes.",
    text: "",
  };
  return `${says[block.kind]} Its length here is ${brief(size)}.`;
}

// ------------------------------------------------------------ a block opened in place

/** The formula of a block, and its arrays with the signs between them. */
function equationOf(e, block) {
  const head = (block.attention && shownHead(e, block.attention)) ?? 0;
  if (block.id === "probabilities") {
    const {
      from: [states],
    } = e.plan.get("logits");
    return {
      formula: "p = softmax(x Wᵀ)",
      parts: [["x", states], "→", ["logits", "logits"], "→", ["p", "probabilities"]],
      stage: "probabilities",
    };
  }
  if (!block.array)
    return { formula: `${wordsOf(e, block.side).length} ${unitsOf(e)}`, parts: [], stage: block.to };
  if (block.attention) {
    const at = part => `${block.attention}.${part}`;
    return {
      formula: `head ${head + 1}${isOff(e, block.attention, head) ? " (off: it gives 0)" : ""}: ${attentionFormula(e, block.attention)}`,
      stage: block.to,
      head,
      parts: [
        ["Q", at("q")],
        "·",
        ["Kᵀ", at("k"), true],
        "→",
        ["softmax", at("weights")],
        "·",
        ["V", at("v")],
        "=",
        ["heads", at("heads")],
      ],
    };
  }
  const node = e.plan.get(block.array);
  if (block.carried) return recurrentEquation(e, block);
  if (block.kind === "forward") {
    const first = e.plan.get(`${block.path}.linear1`).from[0];
    return {
      formula: forwardFormula(e, block.path),
      parts: [["x", first], "→", ["hidden", block.array], "→", ["out", `${block.path}.output`]],
      stage: block.to,
    };
  }
  if (block.around) {
    const sum = e.plan.get(`${block.path}.sum`);
    const isFirst = sum.name === block.array;
    return {
      formula: isFirst ? "x + f(norm(x))" : "norm(x + f(x))",
      stage: block.to,
      parts: [
        ["x", sum.from[0]],
        "+",
        [isFirst ? "f(norm(x))" : "f(x)", sum.from[1]],
        isFirst ? "=" : "→",
        [isFirst ? "sum" : "norm", block.array],
      ],
    };
  }
  const inputs = node.from.filter(name => e.record.arrays[name].shape.at(-1) > 1);
  const signs = { add: "+", join: "beside", stack: "below" };
  const parts = inputs.flatMap((name, i) => [
    ...(i ? [signs[node.kind] ?? ","] : []),
    [describe(e, name), name],
  ]);
  const formulas = {
    lookup: "the row of E for each token",
    scale: "row of E · √d",
    add: "sum of the vectors",
    affine: `norm(x) · gain${isThere(e, node.bias) ? " + bias" : ""}`,
    pixels: "the pixels",
    same: "x",
    join: "the vectors side by side",
    stack: "the class token, then the patches",
  };
  return {
    formula: formulas[node.kind] ?? node.kind,
    parts: [...parts, ...(parts.length ? ["="] : []), [describe(e, block.array), block.array]],
    stage: block.to,
  };
}

/** The card of the opened block: its arrays in one row, its formula, and the way to all numbers. */
export function blockCard(e, view, width) {
  const block = [...view.layout.blocks, view.layout.output].find(each => standsFor(each, e.opened));
  if (!block) return null;
  const { formula, parts, head, stage } = equationOf(e, block);
  const title = e.screens.find(screen => screen.address === stage.split(":")[0])?.title;
  const isBack = Boolean(view.back) && lightOf(view, e.play).backward(block) > 0.5;
  return h(
    "section",
    { class: "card", role: "dialog", "aria-label": block.label },
    h(
      "div",
      { class: "card-head" },
      h("h3", block.label),
      head === undefined ? null : cardHeads(e, block.attention, head),
      h(
        "button",
        {
          type: "button",
          class: "close",
          "aria-label": "Close the block",
          "data-key": "card-close",
          onclick: () => closeCard(e),
        },
        "✕",
      ),
    ),
    parts.length
      ? equation(
          e,
          parts.map(part =>
            typeof part === "string" ? part : { ...cardOperand(e, block, part, head), isBack },
          ),
          104,
          width - 40,
        )
      : null,
    h("p", { class: "formula" }, block.attention ? withRoles(formula) : formula),
    hint(frontSentence(e, block)),
    block.id === "probabilities" && !e.structure.output.head ? samplingSliders(e) : null,
    block.parts
      ? h(
          "p",
          block.parts.map((each, i) => [i ? " · " : "", h("a", { href: `#${each.to}` }, each.text)]),
        )
      : h("p", h("a", { href: `#${stage}` }, `All numbers: ${title}`)),
  );
}

/** Which head the card and the lines show. */
function cardHeads(e, path, head) {
  const { heads } = e.stackOf(path);
  return heads === 1
    ? null
    : headButtons(
        heads,
        head,
        i => isOff(e, path, i),
        pictureHead => e.set({ pictureHead }),
        "card-head",
      );
}

/** An array of the card as an operand of its equation: its axes are tokens, dimensions, or words of the vocabulary. */
function cardOperand(e, block, [letter, name, isTurned = false], head) {
  const { shape } = e.record.arrays[name];
  const token = side => `token:${side}`;
  if (shape.length === 3) {
    const side = e.sideOfRows(name);
    const keys = block.attention.includes("cross") ? "source" : side;
    const isOfKeys = /\.[kv]$/.test(name);
    const { heads, kvHeads } = e.stackOf(block.attention);
    const axes = isTurned
      ? ["width", `key:${keys}`]
      : [isOfKeys ? `value:${keys}` : token(side), e.isOverTokens(name) ? `key:${keys}` : "width"];
    return {
      name,
      title: letter,
      transposed: isTurned,
      head: isOfKeys ? Math.floor(head / (heads / kvHeads)) : head,
      axes,
      widest: 110,
    }; // the weights need their words
  }
  const axes = [shape[0] === 1 ? "one" : token(e.sideOfRows(name)), "width"];
  if (!/^(logits|probabilities)$/.test(name)) return { name, title: letter, axes };
  const best = [...new Set(bestLabelsOf(e.record))].slice(0, 8);
  return { name, title: letter, axes: [axes[0], "word:all"], pick: best };
}

export function closeCard(e) {
  const { id } =
    [...stageView.layout.blocks, stageView.layout.output].find(each => standsFor(each, e.opened)) ?? {};
  const key = id ? `block:${id}` : e.opened;
  e.set({ opened: null });
  document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}
