// The page's colours, light or dark, as [red, green, blue].

const HEADS = 8; // colours of heads; the ninth has that of the first
const NAMES = ["paper", "wash", "line", "ink", "positive", "negative", "night", "flow", "accent", "border"];
for (let i = 0; i < HEADS; i++) NAMES.push(`h${i}`);

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

/** The class of what belongs to a head: it has the head's colour. */
export function headClass(head) {
  return `role-h${head % HEADS}`;
}

/** Of the page's colours, that of a head. */
export function headColour(colours, head) {
  return colours[`h${head % HEADS}`];
}

export function css(colour, alpha = 1) {
  return `rgba(${colour.map(Math.round).join(",")},${alpha})`;
}

export function mixed(from, to, share) {
  const s = Math.min(1, share);
  return from.map((x, i) => x + (to[i] - x) * s);
}
