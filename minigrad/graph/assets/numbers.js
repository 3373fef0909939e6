// Numbers as text: six significant digits, as Python's `%g`, and quantities with prefixes.

const DIGITS = 6;

/** A number of the data; infinities and NaN are strings, since JSON does not have them. */
function toNumber(x) {
  return typeof x === "string" ? Number(x) : x;
}

/** `0.333333`, `1.5e-07`, `nan`, `-inf`. */
function formatNumber(x) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return "0";
  const [mantissa, power] = roundEven(Math.abs(x)).split("e");
  const exponent = Number(power);
  const sign = x < 0 ? "-" : "";
  if (exponent < -4 || exponent >= DIGITS) {
    const digits = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${withoutZeros(mantissa)}e${exponent < 0 ? "-" : "+"}${digits}`;
  }
  return sign + withoutZeros(Number(`${mantissa}e${power}`).toFixed(Math.max(0, DIGITS - 1 - exponent)));
}

/** Six digits and an exponent; a number exactly half way goes to the even digit, as in Python. */
function roundEven(x) {
  const longer = x.toExponential(DIGITS);
  const shorter = x.toExponential(DIGITS - 1);
  const [mantissa, power] = longer.split("e");
  if (!mantissa.endsWith("5") || Number(longer) !== x) return shorter;
  const even = mantissa.slice(0, -1);
  return Number(even.at(-1)) % 2 === 0 ? `${even}e${power}` : shorter;
}

function withoutZeros(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** `1.5 MiB`, `3.2 M`. */
function formatQuantity(n, unit = "") {
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
function count(n, one, several = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : several}`;
}
