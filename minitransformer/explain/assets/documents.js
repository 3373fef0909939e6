// Worked examples of “Transformer Network” and other texts: what each prints, beside what follows from its inputs.

import { h } from "../../../minigrad/graph/assets/dom.js";
import { brief, withMinus } from "./numbers.js";
import { checkbox } from "./pictures.js";
import { hint, scrolling } from "./elements.js";

export function documentsScreen(e) {
  const { examples, note } = e.data.documents;
  return {
    thought:
      "The examples of “Transformer Network” and of two other texts, computed from their inputs. Where a printed number differs by more than rounding explains, both are shown.",
    body: [note ? h("p", note) : null, examples.map(each => documentExample(each))],
  };
}

function documentExample({ about, document: source, note, compared }) {
  return h(
    "section",
    { class: "example" },
    h("h3", about),
    hint(`“${source}”. ${note}`),
    compared.map(comparedTable),
  );
}

function comparedTable({ name, theirs, ours }) {
  const printed = (t, j) => theirs[t]?.[j] ?? null;
  const cells = ours
    .flatMap((row, t) => row.map((x, j) => [printed(t, j), x]))
    .filter(([given]) => given !== null);
  const off = cells.filter(([given, x]) => isOffBy(given, x)).length;
  return h(
    "figure",
    h(
      "figcaption",
      name,
      h("span", { class: "size" }, ` as printed: ${cells.length - off} of ${cells.length}`),
    ),
    scrolling(
      name,
      h(
        "table",
        { class: "compared" },
        h(
          "tbody",
          ours.map((row, t) =>
            h(
              "tr",
              row.map((x, j) => {
                const computed = Number.isInteger(x) ? x.toLocaleString("en") : brief(x);
                return h(
                  "td",
                  printed(t, j) !== null && isOffBy(printed(t, j), x)
                    ? bothNumbers(printed(t, j), computed)
                    : computed,
                );
              }),
            ),
          ),
        ),
      ),
    ),
  );
}

function bothNumbers(printed, computed) {
  return h(
    "span",
    { class: "printed" },
    `the text prints ${withMinus(String(printed))}; computed: ${computed}`,
  );
}

/** Further off than 0.02, or two units of a third or later decimal: rounding along the way is not an error. */
function isOffBy(printed, x) {
  const decimals = (String(printed).split(".")[1] ?? "").length;
  return Math.abs(printed - x) > 2.01 * 10 ** -Math.max(decimals, 2);
}

/** Under an array that a text prints, too: the reader may ask for its numbers. */
export function comparison(e, name) {
  if (!e.data.documents?.beside[name]) return null;
  return checkbox(
    "Compare with the numbers in “Transformer Network”",
    Boolean(e.compares),
    compares => e.set({ compares }),
    `compare ${name}`,
  );
}

/** What “Transformer Network” prints for a number, if the reader has asked. */
export function printedNumber(e, { name, index, gradient }, x) {
  const beside = gradient || !e.compares ? null : e.data.documents?.beside[name];
  if (!beside || e.textRead !== e.data.text || !e.options.positions || !e.options.scale) return null;
  const [t, j] = index.slice(-2);
  const theirs = beside[t][j];
  if (theirs === null) return null;
  return h(
    "span",
    { class: "printed" },
    isOffBy(theirs, x)
      ? `the text prints ${withMinus(String(theirs))}; computed: ${brief(x)}`
      : `printed: ${withMinus(String(theirs))}`,
  );
}
