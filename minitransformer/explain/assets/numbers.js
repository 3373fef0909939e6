// Numbers as text.

/** Decimals for a table whose largest number is `largest`: three significant digits of that one. */
export function decimalsFor(largest) {
  if (!(largest > 0)) return 2;
  return Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(largest))));
}

/** A number in a table. */
export function inTable(x, decimals) {
  if (x === -Infinity) return "−∞";
  if (x === Infinity) return "∞";
  if (Number.isNaN(x)) return "nan";
  if (decimals >= 7) return x === 0 ? "0" : withMinus(x.toExponential(1));
  const text = x.toFixed(decimals);
  return withMinus(Number(text) === 0 ? (0).toFixed(decimals) : text);
}

/** A number by itself: six significant digits. */
export function precise(x) {
  if (!Number.isFinite(x)) return inTable(x);
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-4 || size >= 1e6) return withMinus(x.toExponential(5));
  return withMinus(x.toPrecision(6));
}

/** A factor in a long list: four significant digits. */
export function brief(x) {
  if (!Number.isFinite(x)) return inTable(x);
  if (x === 0) return "0";
  const size = Math.abs(x);
  return withMinus(size < 1e-4 || size >= 1e5 ? x.toExponential(2) : x.toPrecision(4));
}

export function withMinus(text) {
  return text.replaceAll("-", "−");
}

export function percent(p) {
  if (Number.isNaN(p)) return "nan";
  if (p >= 0.995 && p < 1) return `${Math.min(99.9, 100 * p).toFixed(1)} %`; // only what is certain has 100 %
  return p >= 0.0995
    ? `${(100 * p).toFixed(0)} %`
    : p >= 0.001
      ? `${(100 * p).toFixed(1)} %`
      : p > 0
        ? "< 0.1 %"
        : "0 %";
}

export function norm(data) {
  let sum = 0;
  for (const x of data) sum += x * x;
  return Math.sqrt(sum);
}

export function largestOf(data) {
  let largest = 0;
  for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** Where an index is in the data of an array. */
function offset(shape, index) {
  return index.reduce((at, i, axis) => at * shape[axis] + i, 0);
}

export function elementOf(array, index) {
  return array.data[offset(array.shape, index)];
}

export function rowOf({ data, shape }, t) {
  const width = shape.at(-1);
  return data.subarray(t * width, (t + 1) * width);
}
