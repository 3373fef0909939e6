// One step of the walk back, in the panel: what arrives, the local derivative, what goes on to each input,
// and what is added up where a value fans out.

import { kindOf, nameOf } from "./data.js";
import { h } from "./dom.js";
import { LARGE_TABLE, formula, numberTable, plural, snapshotNumbers } from "./elements.js";
import { MORE_DIGITS, count, formatNumber } from "./numbers.js";
import {
  agreement,
  breakable,
  broadcastText,
  checksTable,
  codeLine,
  headedTable,
  heading,
  link,
  numericText,
  section,
  statisticsTable,
} from "./panel.js";
import { isHidden, opAt } from "./progress.js";
import { questionForm } from "./question.js";
import { questions } from "./quiz.js";
import {
  accumulation,
  arithmetic,
  arrivals,
  beforeHooks,
  cellKey,
  flatten,
  isHooked,
  matrixProduct,
  seedOf,
  summedFrom,
  termsOf,
  termsText,
  unravel,
} from "./walk.js";

export function stepPanel(graph, walk, actions) {
  const vertex = opAt(walk);
  const body = vertex
    ? opStep(graph, walk, vertex, actions)
    : walk.step === 0
      ? startStep(graph)
      : endStep(graph, actions);
  return [stepControls(walk, actions), body];
}

function stepControls(walk, actions) {
  const button = (text, id, label, step) =>
    h(
      "button",
      {
        type: "button",
        id,
        "aria-label": label,
        disabled: step < 0 || step > walk.last,
        onclick: () => actions.goTo(step),
      },
      text,
    );
  return h(
    "div",
    { class: "steps", role: "group", "aria-label": "Steps of the walk" },
    button("←", "previous-step", "Previous step", walk.step - 1),
    h("span", { class: "progress" }, `Step ${walk.step} of ${walk.last}`),
    button("→", "next-step", "Next step", walk.step + 1),
    h(
      "label",
      { class: "switch" },
      h("input", { type: "checkbox", id: "quiz", checked: walk.quiz, onchange: actions.toggleQuiz }),
      " Quiz",
    ),
    h("button", { type: "button", onclick: actions.endWalk }, "Close"),
    h("input", {
      type: "range",
      id: "step",
      "aria-label": "Step",
      min: 0,
      max: walk.last,
      value: walk.step,
      oninput: event => actions.goTo(Number(event.target.value)),
    }),
  );
}

function startStep(graph) {
  const seeds = graph.vertices.flatMap(vertex =>
    vertex.seeds.flatMap((seed, i) =>
      seed ? [[heading(`g at ${nameOf(vertex)}`, i, vertex.seeds), seed]] : [],
    ),
  );
  const isOne = seeds.every(([, seed]) => seed.size === 1 && seed.numbers?.[0] === 1);
  const why = isOne ? "The derivative of the output by itself is 1." : "";
  return [
    h("h2", { tabindex: -1 }, "Start of the walk"),
    h("p", `${why} The walk passes this gradient back, op by op, in reverse order.`),
    seeds.map(([title, seed]) => section(title, snapshotNumbers(seed, { caption: "The first gradient" }))),
    h("p", { class: "hint" }, "Press → for the first step."),
  ];
}

const LEAVES = 60; // shown at the end, at most

function endStep(graph, actions) {
  const leaves = graph.vertices.filter(vertex => vertex.kind !== "op" && vertex.gradient);
  const head = ["Leaf", "Backward", "Finite differences", "Result"];
  const rows = leaves.slice(0, LEAVES).map(vertex => leafRow(graph, vertex, actions));
  return [
    h("h2", { tabindex: -1 }, "End of the walk"),
    h("p", `${count(leaves.length, "leaf has its gradient", "leaves have their gradients")}.`),
    headedTable("Gradients of leaves", head, rows),
    leaves.length > LEAVES && h("p", { class: "hint" }, `And ${leaves.length - LEAVES} more.`),
  ];
}

/** A leaf's gradient next to finite differences, of an array at its largest element; or its norm. */
function leafRow(graph, vertex, actions) {
  const { gradient } = vertex;
  const [check] = vertex.checks;
  const where = check?.at.length ? ` [${check.at.join(", ")}]` : "";
  const isNumber = gradient.size === 1 && gradient.numbers;
  const found = isNumber ? gradient.numbers[0] : (check?.analytic ?? gradient.statistics?.norm ?? 0);
  return h(
    "tr",
    h(
      "th",
      { scope: "row", class: "leaf" },
      link(nameOf(vertex), () => actions.select(vertex)),
      where,
    ),
    h("td", isNumber || check ? "" : "norm ", formatNumber(found)),
    h("td", check ? numericText(check) : "not computed"),
    check ? agreement(check, isHooked(graph, vertex)) : h("td"),
  );
}

function opStep(graph, walk, vertex, actions) {
  const edges = vertex.inputs.filter(edge => edge.gradient);
  return [
    h(
      "h2",
      { tabindex: -1 },
      breakable(nameOf(vertex)),
      vertex.label && h("span", { class: "kind" }, ` ${vertex.title}`),
    ),
    graph.groups[vertex.group].path && h("p", { class: "kind" }, `in ${graph.groups[vertex.group].path}`),
    vertex.code && codeLine(vertex),
    h("p", { class: "given" }, letterValues(graph, vertex)),
    section("Upstream gradient g", upstreamView(graph, vertex)),
    edges.map(edge => edgeCard(graph, walk, edge, actions)),
    edges.length === 0 && h("p", "None of its inputs needs a gradient: the walk ends here."),
  ];
}

/** `x = e = -7, y = 2`: the values of the letters in the formulas. */
function letterValues(graph, vertex) {
  const inputs = vertex.inputs.map(edge => {
    const source = graph.vertices[edge.source];
    const value = source.values[edge.result];
    const isNumber = value.size === 1 && value.numbers;
    const shown = isNumber ? `= ${formatNumber(value.numbers[0])}` : `(${kindOf(value)})`;
    return `${edge.operand} = ${nameOf(source)} ${shown}`;
  });
  return [...inputs, ...vertex.settings.map(([name, value]) => `${name} = ${value}`)].join(", ");
}

function upstreamView(graph, vertex) {
  return vertex.gradients.map((g, i) => {
    if (!g) return null;
    const parts = arrivals(graph, vertex.index, i).length;
    const seed = parts > 0 && seedOf(graph, vertex.index, i);
    const used = `its result is used ${count(parts, "time")}${seed ? ", and is an output" : ""}`;
    const many = parts + Boolean(seed) > 1 ? `The sum of ${parts + Boolean(seed)} gradients: ${used}.` : null;
    return [
      vertex.gradients.length > 1 && h("p", { class: "kind" }, `of result ${i + 1}`),
      many && h("p", { class: "hint" }, many),
      hookNote(graph, vertex, i),
      briefNumbers(g, "The upstream gradient"),
    ];
  });
}

/** The gradient before a hook changed it. */
function hookNote(graph, vertex, result) {
  const before = beforeHooks(graph, vertex, result);
  if (!before) return null;
  const { shape } = vertex.gradients[result];
  return [
    h(
      "p",
      { class: "hook" },
      `A hook of ${nameOf(vertex)} changed it.`,
      before.numbers && " Before the hook:",
    ),
    before.numbers && numberTable(before.numbers, shape, { caption: "Before the hook" }),
    before.numbers && h("p", "After the hook:"),
  ];
}

/** Small arrays in full; for large ones, the statistics. */
function briefNumbers(snapshot, caption, options = {}) {
  if (snapshot.whole) return numberTable(snapshot.numbers, snapshot.shape, { caption, ...options });
  return [
    h("p", { class: "kind" }, kindOf(snapshot)),
    snapshot.statistics && !options.hidden && statisticsTable(snapshot),
  ];
}

// ---------------------------------------------------------------- one input

function edgeCard(graph, walk, edge, actions) {
  const vertex = graph.vertices[edge.target];
  const source = graph.vertices[edge.source];
  const hidden = isHidden(walk, edge);
  return h(
    "section",
    { class: "card", "data-place": edge.place },
    h(
      "h3",
      "To ",
      h("span", { class: "operand" }, edge.operand),
      " = ",
      link(nameOf(source), () => actions.point(source)),
    ),
    vertex.formulas.has(edge.operand) &&
      h("p", { class: "formula" }, formula(vertex.formulas.get(edge.operand))),
    vertex.letters.get(edge.operand) && h("p", { class: "letters" }, vertex.letters.get(edge.operand)),
    localDerivative(graph, walk, edge),
    hidden
      ? questions(graph, edge).map((asked, i) =>
          questionForm(
            { ...asked, reveal: said => actions.reveal(edge, said) },
            asked.choices ? `idea-${edge.place}-${i}` : `answer-${edge.place}`,
          ),
        )
      : [
          result(graph, walk, edge, actions),
          broadcast(walk, edge, source, actions),
          added(graph, edge, source),
          changedByHook(graph, edge, source),
          leafCheck(graph, edge, source),
        ],
  );
}

function localDerivative(graph, walk, edge) {
  const product = matrixProduct(graph, edge);
  if (product)
    return walk.cells.has(cellKey(edge)) && !isHidden(walk, edge) ? null : otherFactor(edge, product);
  const jacobian = edge.jacobian;
  if (!jacobian) return h("p", { class: "hint" }, whyNoJacobian(graph.vertices[edge.target], edge));
  if (jacobian.diagonal) {
    const shape = edge.pulled.shape;
    return [
      h("h4", `∂ result / ∂ ${edge.operand}${shape.length ? ", element by element" : ""}`),
      numberTable(jacobian.numbers, shape, { caption: "The local derivative" }),
    ];
  }
  if (jacobian.columns > 16 || jacobian.rows > 16) {
    return h(
      "p",
      { class: "hint" },
      `Its Jacobian is ${jacobian.rows} × ${jacobian.columns}; select a cell of the gradient to see its part.`,
    );
  }
  return [
    h("h4", `∂ result / ∂ ${edge.operand}: a row for each element of the result`),
    numberTable(jacobian.numbers, [jacobian.rows, jacobian.columns], { caption: "The Jacobian" }),
  ];
}

function whyNoJacobian(vertex, edge) {
  if (vertex.family === "checkpoint")
    return "A checkpoint has no rule of its own: backward computes its part again, and walks through that.";
  if (!edge.pulled.size) return "An empty array has no local derivative.";
  if (edge.isLeftOut) return "The local derivative is left out to keep the page small.";
  if (vertex.values.length > 1)
    return "Not shown for an operation with several results: the local derivative.";
  return "The local derivative has too many numbers to show.";
}

/** A product's derivative is its other factor. */
function otherFactor(edge, product) {
  const { left, right } = product.at(0)[0];
  const other = left.name.startsWith("g") ? right : left;
  const batch = product.batches > 1 ? ` (the first of ${product.batches})` : "";
  return [
    h("h4", `∂ result / ∂ ${edge.operand} is ${other.name}${batch}`),
    numberTable(flatten(other), [other.rows, other.columns], { caption: other.name }),
  ];
}

/** g, pulled through the op. */
function result(graph, walk, edge, actions) {
  const pulled = edge.pulled;
  const single = pulled.size === 1 && pulled.whole;
  const terms = single ? arithmetic(graph, edge, 0) : null;
  const title = h("h4", edge.summed.length ? "Before the sum" : "Gradient from this op");
  if (single)
    return [
      title,
      h(
        "p",
        { class: "sum number", "data-result": true },
        terms && termsText(terms),
        formatNumber(pulled.numbers[0], MORE_DIGITS),
      ),
      terms && summedNote(matrixProduct(graph, edge)),
    ];
  const chosen = walk.cells.get(cellKey(edge));
  const canAsk = pulled.whole && pulled.size > 0 && termsOf(graph, edge, 0) !== null;
  const options = canAsk
    ? { onCell: flat => actions.chooseCell(edge, flat), chosen, name: `cell-${edge.place}` }
    : {};
  return [
    title,
    h("div", { "data-result": true }, briefNumbers(pulled, "The gradient pulled through", options)),
    canAsk && chosen === undefined && h("p", { class: "hint" }, "Select a cell to see how it is computed."),
    canAsk && chosen !== undefined && cellView(graph, edge, chosen),
  ];
}

/** How one cell is computed; for a matrix product, with the row and the column. */
function cellView(graph, edge, flat) {
  const terms = arithmetic(graph, edge, flat);
  const product = matrixProduct(graph, edge);
  const index = `[${unravel(flat, edge.pulled.shape).join(", ")}]`;
  const sum = formatNumber(edge.pulled.numbers[flat], MORE_DIGITS);
  if (!terms)
    return h("p", { class: "hint" }, `Element ${index} is a rounding error, or its terms are not shown.`);
  const line = terms.length
    ? h("p", { class: "sum", "data-terms": true }, termsText(terms), h("strong", sum))
    : h("p", { class: "sum" }, h("strong", sum), ": no element of the result depends on it");
  return h(
    "div",
    { class: "cell", role: "region", "aria-label": `How element ${index} is computed` },
    product ? rowAndColumn(product, flat, index, line) : [h("p", `Element ${index}:`), line],
  );
}

/** A row times a column; for an operand used in several batches, one product for each batch. */
function rowAndColumn(product, flat, index, line) {
  const parts = product.at(flat);
  const [{ left, right, i, j }] = parts;
  const what = `row ${i} of ${left.name} times column ${j} of ${right.name}`;
  const axes = `${plural(product.summed.length, "axis", "axes")} ${product.summed.join(", ")} of g`;
  const said = product.summed.length
    ? `Element ${index} is ${what}, summed over ${axes}: used in ${count(parts.length, "batch", "batches")}.`
    : `Element ${index} is ${what}:`;
  const cells = parts.length * (left.rows * left.columns + right.rows * right.columns);
  return [
    h("p", said, product.note && ` ${product.note}`),
    line,
    cells <= LARGE_TABLE && parts.map(part => factorTables(part, parts.length > 1)),
  ];
}

/** For a product of two numbers: the batches over which it was summed. */
function summedNote(product) {
  if (!product?.summed.length) return null;
  const axes = `${plural(product.summed.length, "axis", "axes")} ${product.summed.join(", ")}`;
  return h("p", { class: "hint" }, `Summed over ${axes} of g: it was used in many batches.`);
}

/** The two matrices of a product, the row and the column marked. */
function factorTables({ left, right, i, j, batch }, isOneOfMany) {
  const where = isOneOfMany ? ` [${[...batch, ":", ":"].join(", ")}]` : "";
  const table = (m, marked) =>
    h(
      "figure",
      h("figcaption", m.name, where),
      numberTable(flatten(m), [m.rows, m.columns], { caption: `${m.name}${where}`, marked }),
    );
  return h(
    "div",
    { class: "factors" },
    table(left, flat => Math.floor(flat / left.columns) === i),
    table(right, flat => flat % right.columns === j),
  );
}

/** What was expanded going forward is summed going back. */
function broadcast(walk, edge, source, actions) {
  if (!edge.summed.length) return null;
  const said = `${nameOf(source)} was ${broadcastText(source.values[edge.result].shape, edge)}:`;
  const intro = h("p", { class: "broadcast" }, said);
  const { gradient, pulled } = edge;
  if (!gradient.whole || !pulled.whole) return [intro, briefNumbers(gradient, "The gradient after the sum")];
  if (gradient.size === 1) return [intro, sumLine(edge, 0)];
  const chosen = walk.cells.get(cellKey(edge, "sum"));
  const onCell = flat => actions.chooseCell(edge, flat, "sum");
  return [
    intro,
    briefNumbers(gradient, "The gradient after the sum", { onCell, chosen, name: `sum-${edge.place}` }),
    chosen !== undefined && h("div", { class: "cell" }, sumLine(edge, chosen)),
  ];
}

/** `1 + 4 = 5`: one element of a summed gradient. */
function sumLine(edge, flat) {
  const terms = summedFrom(edge, flat).map(place => [edge.pulled.numbers[place]]);
  const total = formatNumber(edge.gradient.numbers[flat], MORE_DIGITS);
  return h("p", { class: "sum", "data-sum": true }, termsText(terms), h("strong", total));
}

/** The result of a hook, once the whole gradient has arrived. */
function changedByHook(graph, edge, source) {
  if (accumulation(graph, edge).coming || !beforeHooks(graph, source, edge.result)) return null;
  const made = briefNumbers(source.gradients[edge.result], "After the hook");
  return h("div", { class: "added" }, h("p", `A hook of ${nameOf(source)} changes its gradient to:`), made);
}

/** Where a value fans out, its gradient is the sum of what each use sends back. */
function added(graph, edge, source) {
  const uses = arrivals(graph, edge.source, edge.result);
  const { before, sum, arrived, coming } = accumulation(graph, edge);
  if (uses.length === 1 && !arrived) return null;
  const name = nameOf(source);
  const used = `${name} is used ${count(uses.length, "time")}.`;
  const more = coming ? `${count(coming, "use")} to come.` : "Complete.";
  const box = (...content) => h("div", { class: "added" }, content);
  if (!arrived) return box(h("p", `${used} This is the first gradient to arrive. ${more}`));
  if (!sum) return box(h("p", `Added to the gradients of ${count(arrived, "use")} of ${name}. ${more}`));
  return box(addition(name, edge, before, sum), h("p", { class: "hint" }, `${used} ${more}`));
}

/** `grad of x = 2 (this edge) + 4 (earlier) = 6`; of arrays, as tables. */
function addition(name, edge, before, sum) {
  if (sum.length > 1) {
    return [
      h("p", `grad of ${name} = this edge + earlier gradients:`),
      numberTable(before, edge.gradient.shape, { caption: "Earlier" }),
      h("p", "="),
      numberTable(sum, edge.gradient.shape, { caption: "The sum" }),
    ];
  }
  const [now, earlier, total] = [edge.gradient, before, sum].map(of =>
    formatNumber((of.numbers ?? of)[0], MORE_DIGITS),
  );
  const text = `grad of ${name} = ${now} (this edge) + ${earlier} (earlier) = `;
  return h("p", { class: "sum" }, text, h("strong", total));
}

/** When the gradient of a leaf is complete, it is compared with finite differences. */
function leafCheck(graph, edge, source) {
  if (!source.checks.length || accumulation(graph, edge).coming) return null;
  const table = checksTable(source.checks.slice(0, 6), isHooked(graph, source));
  return [h("h4", `${nameOf(source)} by finite differences`), table];
}
