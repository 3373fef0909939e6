// Worked examples of “Transformer Network” and other documents: each number of theirs beside the recomputed one.

function documentsScreen(e) {
  const { examples, note } = e.data.documents;
  return {
    thought: "“Transformer Network” and two other texts on the Transformer work through examples by hand. Here each of their numbers stands beside the one that follows from their inputs; ✗ marks a number that is off by more than 0.02, or 0.002 where three decimals are printed.",
    body: [note ? h("p", {}, note) : null, examples.map(each => documentExample(each))],
  };
}

function documentExample({ about, document: source, note, compared }) {
  return h("section", { class: "example" }, h("h3", {}, about), h("p", { class: "hint" }, `“${source}”. ${note}`),
    compared.map(({ name, theirs, ours }) => h("figure", {}, h("figcaption", {}, name), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, h("table", { class: "beside" },
      h("tbody", {}, ours.map((row, t) => h("tr", {}, row.map((x, j) => {
        const printed = theirs[t]?.[j];
        const off = printed !== undefined && printed !== null && Math.abs(printed - x) > tolerance(printed);
        return h("td", { class: off ? "off" : null }, h("span", {}, Number.isInteger(x) ? x.toLocaleString("en") : brief(x)), printed === undefined || printed === null ? null : h("span", { class: "printed" }, off ? "✗ " : "✓ ", withMinus(String(printed))));
      })))))))));
}

/** 0.02, or two units of a third or later decimal: rounding along the way is not an error. */
function tolerance(printed) {
  const decimals = (String(printed).split(".")[1] ?? "").length;
  return 2.01 * 10 ** -Math.max(decimals, 2);
}
