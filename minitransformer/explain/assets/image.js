// The image that a ViT reads: small in every stage, its patches as pictures, what a patch attends to, and a board to draw on.

import { announce, h } from "../../../minigrad/graph/assets/dom.js";
import { headClass, pageColours } from "./colours.js";
import { range } from "./derive.js";
import { ATTENTION_STAGES, hint, titleOfPath } from "./elements.js";
import { matrix } from "./matrix.js";
import { elementOf, percent, rowOf } from "./numbers.js";
import { bars, brightnessOf, checkbox, compared, wordRow } from "./pictures.js";
import { LETTERS_OF_LEVELS, LEVELS, brightness } from "./pixels.js";
import { answerOf, isOff, largestIndices } from "./state.js";

/** The token that is looked at: that of the selected number, or the chosen query; 0 is [CLS]. */
export function currentToken(e) {
  const words = e.tokensOf("source");
  const row = e.cell && !e.cell.weight ? words.indexOf(e.rowLabel(e.cell.name, e.cell.index.at(-2))) : -1;
  return row >= 0 ? row : Math.min(e.query ?? 0, words.length - 1);
}

/** A pixel's number as a grey. */
export function greyOf(e, x) {
  const [low, high] = brightness(e);
  const grey = Math.round(Math.max(0, Math.min(255, (255 * (x - low)) / (high - low))));
  return [grey, grey, grey];
}

/** Draws the pixels of a square of the image. */
function drawPixels(e, pen, [left, top, count], unit) {
  const { image_size: size, num_channels: channels } = e.data.config;
  for (let y = 0; y < count; y++)
    for (let x = 0; x < count; x++) {
      const grey = c =>
        greyOf(e, e.pixels[(Math.min(c, channels - 1) * size + top + y) * size + left + x])[0];
      pen.fillStyle = `rgb(${grey(0)},${grey(1)},${grey(2)})`;
      pen.fillRect(Math.round(x * unit), Math.round(y * unit), Math.ceil(unit), Math.ceil(unit));
    }
}

/**
 * The image as a canvas. `current` is a patch with a frame, from 1; `weights` are drawn over the patches, the
 * first is that of [CLS], and `bright` dims them; `brush` is a pixel [row, column] with a frame.
 */
export function imageCanvas(
  e,
  width,
  { current = 0, weights = null, bright = 1, brush = null, lines = true, label = null } = {},
) {
  const { image_size: size, patch_size: patch } = e.data.config;
  const count = size / patch;
  const canvas = h("canvas", {
    class: "image",
    width: 2 * width,
    height: 2 * width,
    role: label ? "img" : null,
    "aria-label": label,
    "aria-hidden": label ? null : "true",
  });
  canvas.style.width = `${width}px`;
  const pen = canvas.getContext("2d");
  const unit = (2 * width) / size;
  drawPixels(e, pen, [0, 0, size], unit);
  const corner = n => [((n - 1) % count) * patch * unit, Math.floor((n - 1) / count) * patch * unit];
  const side = patch * unit;
  const { positive } = pageColours();
  if (weights) {
    const largest = Math.max(...weights.slice(1)) || 1;
    range(count * count, i => {
      const [x, y] = corner(i + 1);
      pen.fillStyle = "rgba(0,0,0,0.35)";
      pen.fillRect(x, y, side, side);
      pen.fillStyle = `rgba(${positive.join(",")},${(0.85 * bright * weights[i + 1]) / largest})`;
      pen.fillRect(x, y, side, side);
    });
  }
  if (lines) {
    pen.strokeStyle = "rgba(128,140,155,0.7)";
    range(count * count, i => pen.strokeRect(...corner(i + 1), side, side));
  }
  const frame = (x, y, length) =>
    [
      ["#000", 8],
      ["#6ea0ff", 5],
    ].forEach(([colour, thick]) => {
      pen.strokeStyle = colour;
      pen.lineWidth = Math.min(thick, length / 4);
      pen.strokeRect(x + 2, y + 2, length - 4, length - 4);
    });
  if (current > 0) frame(...corner(current), side);
  if (brush) frame(brush[1] * unit, brush[0] * unit, unit);
  return canvas;
}

/** A token's name with its picture: a patch is what one sees, [CLS] is a name. Of a text, the name. */
export function pictured(e, label, short = false) {
  const number = e.isImage && Number(/^patch (\d+)$/.exec(label)?.[1]);
  if (!number) return label;
  const { image_size: size, patch_size: patch } = e.data.config;
  const count = size / patch;
  const canvas = h("canvas", {
    class: "patch",
    width: 44,
    height: 44,
    role: short ? "img" : null,
    "aria-label": short ? "patch" : null,
    "aria-hidden": short ? null : "true",
  });
  drawPixels(
    e,
    canvas.getContext("2d"),
    [((number - 1) % count) * patch, Math.floor((number - 1) / count) * patch, patch],
    44 / patch,
  );
  return [canvas, short ? `${number}` : label];
}

/** The attention weights of a token to [CLS] and all patches. */
function weightsOf(e, path, head, token) {
  const array = e.record.arrays[`${path}.weights`];
  return range(array.shape[2], u => elementOf(array, [head, token, u]));
}

/** Beside each stage: the image with the current patch, and where that one looks. */
export function stageImage(e) {
  const token = currentToken(e);
  const word = e.tokensOf("source")[token];
  const looks = ATTENTION_STAGES.includes(e.screen);
  const weights = looks ? weightsOf(e, e.path, e.head, token) : null;
  const bright = looks ? brightnessOf(e, e.path, e.head)() : 1;
  const label = looks
    ? `The image, and over it what ${word} attends to`
    : `The image${token ? `, ${word} is framed` : ""}`;
  return h(
    "figure",
    { class: "stage-image" },
    chooser(e, 112, { current: token, weights, bright, label }),
    h("figcaption", looks ? `${word} looks` : word, looks && isOff(e, e.path, e.head) ? " (head off)" : null),
  );
}

/** The image, of which one clicks a patch, or goes there by arrow keys: it is the query from then on. */
function chooser(e, width, { label, ...options }) {
  const { image_size: size, patch_size: patch } = e.data.config;
  const count = size / patch;
  const walk = event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -count, ArrowDown: count }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const query = currentToken(e) + step;
    if (query < 0 || query > count * count) return;
    e.set({ query, cell: null });
    announce(e.tokensOf("source")[query]);
  };
  const chosen = h(
    "div",
    {
      class: "chooser",
      tabindex: 0,
      role: "application",
      "aria-label": `${label}. Arrow keys choose a patch`,
      "data-key": `chooser:${width}`,
      onkeydown: walk,
      onclick: event => {
        const box = event.currentTarget.getBoundingClientRect();
        const place = (at, from, length) =>
          Math.max(0, Math.min(count - 1, Math.floor(((at - from) / length) * count)));
        e.set({
          query:
            1 + place(event.clientY, box.top, box.height) * count + place(event.clientX, box.left, box.width),
          cell: null,
        });
      },
    },
    imageCanvas(e, width, options),
  );
  chosen.style.width = `${width}px`;
  return chosen;
}

/** All heads of all layers at once: what a token attends to in the image. */
export function looksScreen(e) {
  const words = e.tokensOf("source");
  const token = currentToken(e);
  const word = words[token];
  const { heads } = e.stackOf(e.path);
  const own = weightsOf(e, e.path, e.head, token);
  const name = `${e.path}.weights`;
  return {
    thought: `Each head of each layer looks at the image in its own way. Here is what ${word} attends to: the brighter the orange, the larger the weight.`,
    body: [
      h(
        "div",
        { class: "looks" },
        h(
          "div",
          h(
            "h3",
            `${titleOfPath(e.path).replace("encoder ", "").replace(", self-attention", "")}, head ${e.head + 1}${isOff(e, e.path, e.head) ? " (off: it gives 0)" : ""}`,
          ),
          chooser(e, 260, {
            current: token,
            weights: own,
            bright: brightnessOf(e, e.path, e.head)(),
            label: `What ${word} attends to in head ${e.head + 1} of ${titleOfPath(e.path)}`,
          }),
          hint(
            `The patches get ${percent(own.slice(1).reduce((sum, x) => sum + x, 0))} of its attention, [CLS] gets ${percent(own[0])}. Click a patch to see where it looks.`,
          ),
        ),
        h(
          "table",
          { class: "gazes" },
          h("caption", { class: "unseen" }, "Layers and heads"),
          h(
            "thead",
            h(
              "tr",
              h("td"),
              range(heads, i => h("th", { scope: "col", class: headClass(i) }, `head ${i + 1}`)),
            ),
          ),
          h(
            "tbody",
            e.attentionPaths().map((path, layer) =>
              h(
                "tr",
                h("th", { scope: "row" }, `layer ${layer + 1}`),
                range(heads, i =>
                  h(
                    "td",
                    { class: isOff(e, path, i) ? "off" : null },
                    h(
                      "button",
                      {
                        type: "button",
                        "data-key": `gaze:${layer}:${i}`,
                        "aria-pressed": path === e.path && i === e.head ? "true" : "false",
                        "aria-label": `Layer ${layer + 1}, head ${i + 1}`,
                        onclick: () => {
                          e.head = i;
                          e.go(`looks:${path}`);
                        },
                      },
                      imageCanvas(e, 64, {
                        current: token,
                        weights: weightsOf(e, path, i, token),
                        lines: false,
                      }),
                    ),
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
      wordRow(e, words, token, "Token that looks", i => e.set({ query: i, cell: null })),
      h("h3", "The same as numbers"),
      matrix(e, name, { title: "attention weights", head: e.head, current: token }),
    ],
  };
}

// ---------------------------------------------------------------- drawing

/** A board to draw on, and what the model takes the drawing for. */
export function drawingBoard(e, width = 240) {
  const { image_size: size } = e.data.config;
  const erases = () => Boolean(e.erases);
  const at = event => {
    const box = event.currentTarget.getBoundingClientRect();
    return [((event.clientY - box.top) / box.height) * size, ((event.clientX - box.left) / box.width) * size];
  };
  const board = h(
    "div",
    {
      class: "board",
      tabindex: 0,
      role: "application",
      "data-key": `board:${width}`,
      "aria-label": `Board of ${size} × ${size} pixels: arrow keys move, space paints`,
      onpointerdown: event => {
        event.currentTarget.setPointerCapture(event.pointerId);
        e.stroke = at(event);
        paintLine(e, e.stroke, e.stroke, erases());
      },
      onpointermove: event => {
        if (!e.stroke) return;
        const point = at(event);
        paintLine(e, e.stroke, point, erases());
        e.stroke = point;
      },
      onpointerup: () => {
        e.stroke = null;
      },
      onpointercancel: () => {
        e.stroke = null;
      },
      onkeydown: event => walkBoard(e, event),
    },
    imageCanvas(e, width, { brush: e.brush }),
  );
  board.style.width = `${width}px`;
  return h(
    "div",
    { class: "drawing" },
    board,
    h(
      "div",
      { class: "together" },
      h(
        "button",
        { type: "button", "data-key": "clear", onclick: () => e.set({ drawing: "a".repeat(size * size) }) },
        "Clear",
      ),
      h(
        "button",
        {
          type: "button",
          "data-key": "example",
          disabled: !e.drawing,
          onclick: () => e.set({ drawing: null }),
        },
        "Back to the example",
      ),
    ),
    checkbox("Erase", erases(), value => e.set({ erases: value })),
    hint("Draw with the mouse or a finger; or with the arrow keys and space."),
  );
}

/** Arrow keys move the brush, space paints a pixel or clears it. */
function walkBoard(e, event) {
  const { image_size: size } = e.data.config;
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (!step && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  const [row, column] = e.brush ?? [Math.floor(size / 2), Math.floor(size / 2)];
  if (step) {
    const brush = [row + step[0], column + step[1]].map(x => Math.max(0, Math.min(size - 1, x)));
    e.set({ brush });
    const level = levelsOf(e)[brush[0] * size + brush[1]];
    return announce(
      `row ${brush[0] + 1}, column ${brush[1] + 1}: ${level ? `${Math.round((100 * level) / LEVELS)} %` : "dark"}`,
    );
  }
  const levels = drawnLetters(e);
  const at = row * size + column;
  const bright = levelsOf(e)[at] <= LEVELS / 2;
  levels[at] = LETTERS_OF_LEVELS[bright ? LEVELS : 0];
  e.set({ brush: [row, column], drawing: levels.join("") });
  announce(`${bright ? "painted" : "cleared"}: ${answerOf(e)}`);
}

function drawnLetters(e) {
  const { image_size: size } = e.data.config;
  return [...(e.drawing ?? ".".repeat(size * size))];
}

/** The brightness of each pixel, in levels. */
function levelsOf(e) {
  const [low, high] = brightness(e);
  return e.pixels
    .slice(0, e.data.config.image_size ** 2)
    .map(x => Math.round((LEVELS * (x - low)) / (high - low)));
}

/** Paints, or erases, a line with soft edges between two points of the board, [row, column]. */
function paintLine(e, from, to, erases) {
  const { image_size: size } = e.data.config;
  const radius = Math.max(0.6, size / 14);
  const letters = drawnLetters(e);
  const levels = levelsOf(e);
  const [dy, dx] = [to[0] - from[0], to[1] - from[1]];
  const length = dy * dy + dx * dx;
  levels.forEach((level, i) => {
    const [y, x] = [Math.floor(i / size) + 0.5 - from[0], (i % size) + 0.5 - from[1]];
    const along = length ? Math.max(0, Math.min(1, (y * dy + x * dx) / length)) : 0;
    const cover = radius + 0.5 - Math.hypot(y - along * dy, x - along * dx);
    const painted = Math.round(LEVELS * Math.max(0, Math.min(1, cover)));
    const next = erases ? Math.min(level, LEVELS - painted) : Math.max(level, painted);
    if (next !== level) letters[i] = LETTERS_OF_LEVELS[next];
  });
  const drawing = letters.join("");
  if (drawing !== (e.drawing ?? drawnLetters(e).join(""))) e.set({ drawing });
}

/** The likeliest classes. */
function classBars(e) {
  const row = rowOf(e.record.arrays.probabilities, 0);
  return bars(
    largestIndices(row, 5).map(v => [e.wordOf(v), row[v], ...compared(e, 0, v, row[v])]),
    "The likeliest classes",
  );
}

/** In the toolbar, in place of a sentence: the image, and below it the board. */
export function imageField(e, open) {
  return h(
    "details",
    { class: "what-if draw", open },
    h(
      "summary",
      { "data-key": "draw-image" },
      imageCanvas(e, 34, { current: currentToken(e), lines: false, label: "The image that the model reads" }),
      " Draw",
    ),
    h("div", drawingBoard(e), h("div", h("p", { class: "label" }, "It says"), classBars(e))),
  );
}
