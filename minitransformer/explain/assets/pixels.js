// The pixels of a drawing over the image of a ViT, and the drawing in a short text.

export const LEVELS = 16; // of a drawn pixel, as scikit-learn's digits have them
export const LETTERS_OF_LEVELS = "abcdefghijklmnopq"; // a drawing is a letter a pixel; "." is the example's pixel

/** The darkest and the brightest number of the example, found once: each pixel that is drawn asks for them. */
export function brightness(e) {
  if (!e.brightness) {
    const [low, high] = e.data.image.reduce(
      ([least, most], x) => [Math.min(least, x), Math.max(most, x)],
      [Infinity, -Infinity],
    );
    e.brightness = [low, high > low ? high : low + 1];
  }
  return e.brightness;
}

/** The numbers of a drawing, all channels alike. */
export function pixelsOf(e, drawing) {
  if (!drawing) return e.data.image;
  const [low, high] = brightness(e);
  return e.data.image.map((x, i) => {
    const level = LETTERS_OF_LEVELS.indexOf(drawing[i % drawing.length]);
    return level < 0 ? x : low + (level / LEVELS) * (high - low);
  });
}

/** The drawing of a short text; null if it has not as many pixels as the image. */
export function longDrawing(text, size) {
  const parts = [...text.matchAll(/([a-q.])(\d*)/g)].map(([, letter, count]) => [letter, Number(count || 1)]);
  if (parts.reduce((sum, [, count]) => sum + count, 0) !== size * size) return null;
  return parts.map(([letter, count]) => letter.repeat(count)).join("");
}

/** A drawing in short: "a12" are twelve "a". */
export function shortDrawing(drawing) {
  return drawing.replace(/(.)\1+/g, (same, letter) => `${letter}${same.length}`);
}
