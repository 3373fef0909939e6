// The page's colours, light or dark, as [red, green, blue].

const NAMES = ["paper", "wash", "line", "ink", "positive", "negative", "night", "flow", "accent", "border"];

/** What the style sheet says now. */
export function pageColours() {
  const style = getComputedStyle(document.documentElement);
  const read = name =>
    style
      .getPropertyValue(`--${name}`)
      .trim()
      .match(/[\da-f]{2}/gi)
      .map(x => parseInt(x, 16));
  return Object.fromEntries(NAMES.map(name => [name, read(name)]));
}

export function css(colour, alpha = 1) {
  return `rgba(${colour.map(Math.round).join(",")},${alpha})`;
}

export function mixed(from, to, share) {
  const s = Math.min(1, share);
  return from.map((x, i) => x + (to[i] - x) * s);
}
