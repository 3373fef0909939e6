// Numbers as text: three significant digits, as Python's `%g`, or all of them, and quantities with prefixes; and
// the colours of numbers.

export const DIGITS = 3,
  MORE_DIGITS = 6, // in arithmetic
  LEVELS = 4; // of a colour

/** A number of the data; infinities and NaN are strings, since JSON does not have them. */
export function toNumber(x) {
  return typeof x === "string" ? Number(x) : x;
}

/** `0.333`, `1.5e-07`, `nan`, `-inf`. */
export function formatNumber(x, digits = DIGITS) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return "0";
  const [mantissa, power] = roundEven(Math.abs(x), digits).split("e");
  const exponent = Number(power);
  const sign = x < 0 ? "-" : "";
  if (exponent < -4 || exponent >= digits) {
    const written = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${withoutZeros(mantissa)}e${exponent < 0 ? "-" : "+"}${written}`;
  }
  return sign + withoutZeros(Number(`${mantissa}e${power}`).toFixed(Math.max(0, digits - 1 - exponent)));
}

/** Some digits and an exponent; a number exactly half way goes to the even digit, as in Python. */
function roundEven(x, digits) {
  const longer = x.toExponential(digits);
  const shorter = x.toExponential(digits - 1);
  const [mantissa, power] = longer.split("e");
  if (!mantissa.endsWith("5") || Number(longer) !== x) return shorter;
  const even = mantissa.slice(0, -1);
  return Number(even.at(-1)) % 2 === 0 ? `${even}e${power}` : shorter;
}

/** As many digits as identify a number among those of its precision: float32, or float64. */
export function allDigits(x) {
  if (!Number.isFinite(x)) return formatNumber(x);
  const round = Math.fround(x) === x ? Math.fround : y => y;
  for (let digits = DIGITS; digits < 17; digits += 1) {
    if (round(Number(x.toPrecision(digits))) === x) return formatNumber(x, digits);
  }
  return String(x);
}

/** The class of a number's colour, `p1` to `p4` or `n1` to `n4`: its sign, and its share of the largest. */
export function signClass(x, largest) {
  if (!Number.isFinite(x)) return "broken";
  return x === 0 ? "" : `${x > 0 ? "p" : "n"}${Math.ceil((Math.abs(x) / largest) * LEVELS)}`;
}

/** The class of a cell of a heat map, of which 4 is 0, 9 is True, and x is not finite. */
export function heatClass(digit) {
  if (digit === "x") return "broken";
  const level = Number(digit) - LEVELS;
  return level > LEVELS ? "masked" : level > 0 ? `p${level}` : `n${-level}`;
}

/** The largest magnitude of numbers, of the finite ones. */
export function largestOf(numbers) {
  return numbers.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0) || 1;
}

function withoutZeros(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** `1.5 MiB`, `3.2 M`. */
export function formatQuantity(n, unit = "") {
  const [step, prefixes] =
    unit === "B" ? [1024, ["", "Ki", "Mi", "Gi", "Ti"]] : [1000, ["", "k", "M", "G", "T", "P"]];
  let power = 0;
  while (n >= step && power < prefixes.length - 1) {
    n /= step;
    power += 1;
  }
  const shown = power === 0 || n >= 100 ? n.toFixed(0) : String(Number(n.toPrecision(3)));
  return `${shown} ${prefixes[power]}${unit}`.trim();
}

/** `1 use`, `2 uses`. */
export function count(n, one, several = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : several}`;
}
