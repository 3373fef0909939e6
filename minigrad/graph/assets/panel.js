// The side panel: everything about the selected box, or about the whole graph.
//
// `actions` are what a user can do here: select(vertex), selectGroup(group), toggle(group),
// showMember(stack, member).

import { chainOf, contentsOf, kindOf, nameOf, shapeText } from "./data.js";
import { h } from "./dom.js";
import { formula, plural, snapshotNumbers } from "./elements.js";
import { ALL, memberOf } from "./folding.js";
import { count, formatNumber, formatQuantity } from "./numbers.js";
import { enteringPart, isHooked, leavingPart, sentByPart, walkBack } from "./walk.js";

export function section(title, ...content) {
  return h("section", h("h3", title), content);
}

/** Names and values. */
function facts(pairs) {
  const rows = pairs.filter(([, value]) => ![null, undefined, false, ""].includes(value));
  return h(
    "dl",
    rows.map(([name, value]) => [h("dt", name), h("dd", value)]),
  );
}

/** A path may break after its dots. */
export function breakable(name) {
  return name.split(/(?<=\.)/).flatMap(part => [h("wbr"), part]);
}

export function link(text, onclick, title = null) {
  return h("button", { type: "button", class: "link", onclick, title }, text);
}

// ---------------------------------------------------------------- the whole graph

export function overviewPanel(graph, actions) {
  const outputs = graph.vertices.filter(vertex => vertex.isOutput);
  const steps = walkBack(graph).length;
  return [
    h("h2", { tabindex: -1 }, "How to read this"),
    h(
      "p",
      "Values are computed from top to bottom; gradients flow back up. " +
        "Select a box to see its numbers. A box with a + unfolds.",
    ),
    graph.notes.map(note => h("p", { class: "note" }, note)),
    steps > 0 &&
      h(
        "p",
        h(
          "button",
          { type: "button", class: "primary", onclick: actions.startWalk },
          "Walk backward, step by step",
        ),
      ),
    section(
      plural(outputs.length, "Output"),
      h(
        "ul",
        { class: "plain" },
        outputs.map(vertex =>
          h(
            "li",
            link(nameOf(vertex), () => actions.select(vertex)),
            ` ${kindOf(vertex.value)}`,
            vertex.value.size === 1 && vertex.value.numbers && ` = ${formatNumber(vertex.value.numbers[0])}`,
          ),
        ),
      ),
    ),
    section("Totals", totals(graph, graph.groups[0])),
    section("Keys", keysTable()),
  ];
}

function keysTable() {
  const keys = [
    ["← ↑ → ↓", "next box; in the walk: one step"],
    ["Enter", "unfold or fold a part"],
    ["b", "start or end the walk backward"],
    ["Home End", "in the walk: first step, last step"],
    ["q", "in the walk: the quiz"],
    ["/", "search"],
    ["+ − 0", "zoom in, zoom out, fit"],
    ["Shift + arrows", "move the drawing"],
    ["Esc", "back"],
  ];
  return h(
    "dl",
    { class: "keys" },
    keys.map(([key, does]) => [h("dt", h("kbd", key)), h("dd", does)]),
  );
}

/** Counts and sums over a group's vertices. */
function totals(graph, group) {
  const vertices = contentsOf(graph, group.index).map(i => graph.vertices[i]);
  const ops = vertices.filter(vertex => vertex.kind === "op");
  const parameters = vertices.filter(vertex => vertex.kind === "parameter");
  const sum = (list, of) => list.reduce((total, x) => total + of(x), 0);
  const memories = new Map(ops.flatMap(op => op.retained.map(kept => [kept.memory, kept.bytes])));
  const learned = sum(parameters, vertex => vertex.value.size);
  return facts([
    ["Operations", ops.length.toLocaleString("en")],
    [
      "Parameters",
      parameters.length > 0 &&
        `${learned.toLocaleString("en")} numbers in ${count(parameters.length, "tensor")}`,
    ],
    ["FLOPs, forward", formatQuantity(sum(ops, op => op.flops ?? 0))],
    [
      "Results",
      formatQuantity(
        sum(ops, op => sum(op.values, value => value.bytes)),
        "B",
      ),
    ],
    [
      "Saved for backward",
      formatQuantity(
        sum([...memories.values()], bytes => bytes),
        "B",
      ),
    ],
  ]);
}

// ---------------------------------------------------------------- a group

export function groupPanel(graph, group, state, actions) {
  const isOpen = state.open.has(group.index);
  return [
    breadcrumb(graph, group.parent, actions),
    h("h2", { tabindex: -1 }, group.shownName || "The whole graph"),
    h(
      "p",
      { class: "kind" },
      group.isStack ? `${group.times} × ${group.kind}, all equal` : group.kind || "part",
    ),
    group.index !== 0 &&
      h(
        "p",
        h(
          "button",
          { type: "button", "aria-expanded": String(isOpen), onclick: () => actions.toggle(group) },
          isOpen ? "Fold" : "Unfold",
        ),
      ),
    group.isStack && isOpen && memberChooser(graph, group, state, actions),
    group.index !== 0 && group.formulas.length > 0 && section("As one operation", closedForm(group)),
    group.index !== 0 && section("In", goingIn(graph, group, actions)),
    group.index !== 0 && section("Out", goingOut(graph, group, actions)),
    section("Totals", totals(graph, group)),
    section("Contents", contents(graph, group, actions)),
  ];
}

/** The gradients of the composite operation whose definition a part is: what its steps add up to. */
function closedForm(group) {
  return [
    h(
      "ul",
      { class: "formulas" },
      group.formulas.map(text => h("li", formula(text))),
    ),
    h(
      "p",
      { class: "hint" },
      "y is the result, g its gradient. Below, the gradient is the sum of what the steps inside send back: the same.",
    ),
  ];
}

const PARAMETERS = 4; // of a part that are shown with their numbers

/** What enters a part, and the gradient that it sends back to it, over all its steps. */
function goingIn(graph, group, actions) {
  const entering = enteringPart(graph, group);
  const inside = contentsOf(graph, group.index).map(i => graph.vertices[i]);
  const learned = inside.filter(vertex => vertex.kind === "parameter" && vertex.gradient);
  return [
    entering.length === 0 && h("p", { class: "hint" }, "Nothing enters it."),
    entering.map(({ vertex, result, edges }) => {
      const back = sentByPart(edges);
      const uses = edges.filter(edge => edge.gradient).length;
      return passing(
        vertex,
        result,
        back,
        uses > 1 ? `Gradient that goes back, the sum of ${uses} uses` : null,
        actions,
      );
    }),
    learned.slice(0, PARAMETERS).map(vertex => passing(vertex, 0, vertex.gradient, "Gradient", actions)),
    learned.length > PARAMETERS &&
      h("p", { class: "hint" }, `And ${learned.length - PARAMETERS} more parameters.`),
  ];
}

function goingOut(graph, group, actions) {
  return leavingPart(graph, group).map(({ vertex, result }) =>
    passing(vertex, result, vertex.gradients[result], "Gradient that arrives", actions),
  );
}

/** A value at the border of a part, with its gradient there. */
function passing(vertex, result, gradient, title, actions) {
  const value = vertex.values[result];
  return h(
    "div",
    { class: "passing" },
    h(
      "p",
      link(nameOf(vertex), () => actions.select(vertex)),
      ` ${kindOf(value)}`,
    ),
    snapshotNumbers(value, { caption: `Value of ${nameOf(vertex)}` }),
    gradient && h("h4", title ?? "Gradient that goes back"),
    gradient && snapshotNumbers(gradient, { caption: `Gradient of ${nameOf(vertex)}` }),
  );
}

function breadcrumb(graph, group, actions) {
  if (group === null) return null;
  const links = chainOf(graph, group)
    .filter(part => part.index !== 0)
    .map(part =>
      h(
        "li",
        link(part.name || part.kind, () => actions.selectGroup(part)),
      ),
    );
  return links.length > 0 && h("nav", { "aria-label": "Location" }, h("ol", { class: "breadcrumb" }, links));
}

function memberChooser(graph, stack, state, actions) {
  const options = stack.groups.map((index, place) => h("option", { value: place }, graph.groups[index].name));
  const select = h(
    "select",
    { id: "member", onchange: event => actions.showMember(stack, Number(event.target.value)) },
    options,
    h("option", { value: ALL }, `all ${stack.times}`),
  );
  select.value = String(memberOf(state, stack.index));
  return h("p", h("label", { for: "member" }, "Shown member: "), select);
}

function contents(graph, group, actions) {
  const counts = new Map();
  for (const i of contentsOf(graph, group.index)) {
    const vertex = graph.vertices[i];
    const name = vertex.kind === "op" ? vertex.title : vertex.kind;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const parts = group.groups.map(index => graph.groups[index]);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  return [
    parts.length > 0 &&
      h(
        "ul",
        { class: "plain" },
        parts.map(part =>
          h(
            "li",
            link(part.name || part.kind, () => actions.selectGroup(part)),
            part.kind && part.kind !== part.name && ` ${part.kind}`,
          ),
        ),
      ),
    h("p", { class: "hint" }, sorted.map(([name, n]) => (n > 1 ? `${n} × ${name}` : name)).join(", ")),
  ];
}

// ---------------------------------------------------------------- a vertex

export function vertexPanel(graph, vertex, actions) {
  const isOp = vertex.kind === "op";
  return [
    breadcrumb(graph, vertex.group, actions),
    h("h2", { tabindex: -1 }, breakable(nameOf(vertex))),
    h("p", { class: "kind" }, isOp ? `${vertex.name}, an operation (${vertex.family})` : vertex.kind),
    vertex.parts &&
      h(
        "p",
        { class: "hint parts" },
        `One kernel for ${vertex.parts}. With minigrad.fused(False) each is a box.`,
      ),
    vertex.code && codeLine(vertex),
    vertex.values.map((value, i) =>
      section(heading("Value", i, vertex.values), snapshotView(value, "value")),
    ),
    vertex.gradients.map(
      (g, i) => g && section(heading("Gradient", i, vertex.gradients), snapshotView(g, "gradient")),
    ),
    vertex.checks.length > 0 &&
      section(
        "Compared with finite differences",
        checksTable(vertex.checks, isHooked(graph, vertex)),
        differencesNote(),
      ),
    vertex.formulas.size > 0 && section("Derivative", formulasList(vertex)),
    vertex.inputs.length > 0 &&
      section(
        "Inputs",
        edgesList(vertex.inputs, edge => graph.vertices[edge.source], true, actions),
      ),
    graph.uses[vertex.index].length > 0 &&
      section(
        "Used by",
        edgesList(graph.uses[vertex.index], edge => graph.vertices[edge.target], false, actions),
      ),
    section(isOp ? "Settings and cost" : "Cost", costs(graph, vertex)),
  ];
}

export function heading(title, i, all) {
  return all.length > 1 ? `${title} ${i + 1} of ${all.length}` : title;
}

export function codeLine(vertex) {
  return h("figure", { class: "code" }, h("pre", h("code", vertex.code)), h("figcaption", vertex.source));
}

function snapshotView(snapshot, what) {
  const single = snapshot.size === 1 && snapshot.numbers;
  return [
    h("p", { class: "kind" }, kindOf(snapshot)),
    badNumbers(snapshot),
    snapshotNumbers(snapshot, { caption: `The ${what}` }),
    !single && snapshot.statistics && statisticsTable(snapshot),
  ];
}

function badNumbers(snapshot) {
  if (snapshot.finite) return null;
  const { nan, inf } = snapshot.statistics;
  const said = [nan && `${nan} NaN`, inf && `${inf} infinite`].filter(Boolean).join(", ");
  return h(
    "p",
    { class: "warning" },
    `${said} of ${count(snapshot.size, "number")}; statistics are of the others.`,
  );
}

export function statisticsTable(snapshot) {
  const names = ["min", "mean", "max", "std", "norm"];
  return h(
    "dl",
    { class: "statistics" },
    names.map(name => h("div", h("dt", name), h("dd", formatNumber(snapshot.statistics[name])))),
  );
}

function formulasList(vertex) {
  const operands = vertex.inputs.map(edge => edge.operand);
  const forms = [...vertex.formulas]
    .filter(([operand]) => operands.includes(operand))
    .map(([, text]) => text);
  const letters = new Set([...vertex.letters.values()].filter(Boolean));
  return [
    h(
      "ul",
      { class: "formulas" },
      forms.map(text => h("li", formula(text))),
    ),
    letters.size > 0 && h("p", { class: "letters" }, [...letters].join("; ")),
    h("p", { class: "hint" }, "g is the gradient of the result; a bar marks the gradient of an input."),
  ];
}

function edgesList(edges, other, isInput, actions) {
  return h(
    "ul",
    { class: "plain edges" },
    edges.map(edge => {
      const vertex = other(edge);
      return h(
        "li",
        isInput && h("span", { class: "operand" }, `${edge.operand} = `),
        link(nameOf(vertex), () => actions.select(vertex)),
        !isInput && ` as ${edge.operand}`,
        ` ${isInput ? kindOf(vertex.values[edge.result]) : ""}`,
        broadcastNote(edge, vertex, isInput),
      );
    }),
  );
}

function broadcastNote(edge, vertex, isInput) {
  if (!isInput || !edge.expanded) return null;
  return h("div", { class: "hint" }, broadcastText(vertex.values[edge.result].shape, edge));
}

/** "expanded (3,) → (2, 3) going forward, summed over axis 0 going back". */
export function broadcastText(shape, edge) {
  const axes = `${plural(edge.summed.length, "axis", "axes")} ${edge.summed.join(", ")}`;
  const shapes = `${shapeText(shape)} → ${shapeText(edge.expanded)}`;
  return `expanded ${shapes} in forward, summed over ${axes} in backward`;
}

export function checksTable(checks, hooked) {
  const row = check =>
    h(
      "tr",
      h("th", { scope: "row" }, check.at.length ? `[${check.at.join(", ")}]` : "value"),
      h("td", formatNumber(check.analytic)),
      h("td", numericText(check)),
      agreement(check, hooked),
    );
  const head = ["Element", "Backward", "Finite differences", "Result"];
  return headedTable("Gradients by backward and by finite differences", head, checks.map(row));
}

function differencesNote() {
  return h("p", { class: "hint" }, "(f(x + h) − f(x − h)) / 2h, in float64.");
}

export function headedTable(caption, head, rows) {
  const cells = head.map(text => h("th", { scope: "col" }, text));
  const table = h(
    "table",
    { class: "checks" },
    h("caption", h("span", { class: "unseen" }, caption)),
    h("thead", h("tr", cells)),
    h("tbody", rows),
  );
  return h("div", { class: "tables", role: "group", "aria-label": caption }, table);
}

/** The result of a gradient check (gradient_checks.py) as a cell. */
export function agreement({ verdict, low, high }, hooked) {
  if (verdict === "agree") return h("td", { class: "agrees" }, "✓ agree");
  if (hooked) return h("td", { class: "said" }, "changed by a hook");
  if (verdict === "differ") return h("td", { class: "differs" }, "✗ differ");
  const said = {
    kink: `a kink: any value between ${formatNumber(low)} and ${formatNumber(high)}`,
    jump: "a jump: no derivative",
    unsure: "rounding hides the difference",
    none: "not finite: no comparison",
  };
  return h("td", { class: "said" }, said[verdict]);
}

/** `2.5`, `2.5 ± 0.1` where rounding leaves it unsure, `0 … 1` at a kink. */
export function numericText({ analytic, numeric, error, verdict, low, high }) {
  if (verdict === "kink") return `${formatNumber(low)} … ${formatNumber(high)}`;
  const isRough = error > 1e-3 * Math.max(Math.abs(numeric), Math.abs(analytic));
  return formatNumber(numeric) + (isRough ? ` ± ${formatNumber(Number(error.toPrecision(1)))}` : "");
}

function costs(graph, vertex) {
  const bytes = vertex.values.reduce((total, value) => total + value.bytes, 0);
  const kept = vertex.retained.reduce((total, part) => total + part.bytes, 0);
  return facts([
    ...vertex.settings,
    ["Bytes", formatQuantity(bytes, "B")],
    ["FLOPs, forward", vertex.flops === null ? null : formatQuantity(vertex.flops)],
    ["Saved for backward", vertex.retained.length ? keptText(graph, vertex, kept) : null],
  ]);
}

function keptText(graph, vertex, kept) {
  const others = vertex.retained.filter(part => part.owner !== null && part.owner !== vertex.index);
  const names = [...new Set(others.map(part => nameOf(graph.vertices[part.owner])))];
  const shared = others.reduce((total, part) => total + part.bytes, 0);
  return names.length
    ? `${formatQuantity(kept, "B")}, ${formatQuantity(shared, "B")} of it shared with ${names.join(", ")}`
    : formatQuantity(kept, "B");
}
