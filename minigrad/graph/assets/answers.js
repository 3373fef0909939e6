// Answers that a reader types, in this page's quiz and in others.

/** The number that a user typed, or null: also with a decimal comma, a minus sign, or as a fraction. */
export function parseTyped(text) {
  const plain = text
    .trim()
    .replace(",", ".")
    .replace("−", "-")
    .replace(/∞|inf(inity)?$/i, "Infinity");
  const fraction = plain.match(/^(-?[\d.]+)\s*\/\s*([\d.]+)$/);
  const typed = fraction ? Number(fraction[1]) / Number(fraction[2]) : Number(plain);
  if (/^nan$/i.test(plain)) return NaN;
  return plain === "" || Number.isNaN(typed) ? null : typed;
}

/** Whether an answer is within 1%, or the same NaN or infinity. */
export function isRight(typed, wanted) {
  if (typed === null || !Number.isFinite(wanted)) return Object.is(typed, wanted);
  return Math.abs(typed - wanted) <= 0.01 * Math.abs(wanted) + (wanted === 0 ? 1e-9 : 0);
}
