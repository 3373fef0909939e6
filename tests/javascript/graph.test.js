// The graph page's numbers, folding, layout and walk. test_javascript.py writes the data.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { readGraph } from "../../minigrad/graph/assets/data.js";
import { openAll } from "../../minigrad/graph/assets/folding.js";
import { formatNumber, formatQuantity, heatClass } from "../../minigrad/graph/assets/numbers.js";
import { layOut, openWhatFits } from "../../minigrad/graph/assets/placing.js";
import { newWalk, opAt, stepOf } from "../../minigrad/graph/assets/progress.js";
import { roundHalf, unravel } from "../../minigrad/graph/assets/walk.js";

const data = JSON.parse(readFileSync(process.env.DATA));
const graphs = data.graphs.map(readGraph);
const atStart = graph => ({ open: new Set(graph.open), shown: new Map(graph.shown), colour: "family" });

test("numbers are written as by Python's %g", () => {
  const written = [0, -0.5, 1 / 3, 123456, 1e-9, 0.0001234, 2.5, NaN, -Infinity].map(x => formatNumber(x));
  assert.deepEqual(written, ["0", "-0.5", "0.333", "1.23e+05", "1e-09", "0.000123", "2.5", "nan", "-inf"]);
  assert.deepEqual(
    [999, 1000, 63082496].map(n => formatQuantity(n)),
    ["999", "1 k", "63.1 M"],
  );
  assert.equal(formatQuantity(3 * 2 ** 20, "B"), "3 MiB");
});

test("a cell of a heat map has the class of its sign and size", () => {
  assert.deepEqual([..."03589x"].map(heatClass), ["n4", "n1", "p1", "p4", "masked", "broken"]);
});

test("float16 is rounded as by NumPy", () => {
  assert.deepEqual(
    data.halves.map(roundHalf),
    data.rounded.map(x => (x === "inf" ? Infinity : x)),
  );
});

test("a flat index is its indices in order", () => {
  assert.deepEqual(
    [0, 5, 23].map(i => unravel(i, [2, 3, 4])),
    [
      [0, 0, 0],
      [0, 1, 1],
      [1, 2, 3],
    ],
  );
});

for (const [name, open] of [
  ["at the start", () => {}],
  ["with everything open", openAll],
  ["with what fits", (graph, state) => openWhatFits(graph, state, scene => scene.height < 900)],
]) {
  test(`boxes lie apart and lines lead down ${name}`, () => {
    for (const graph of graphs) {
      const state = atStart(graph);
      open(graph, state);
      const { boxes, lines, width, height } = layOut(graph, state);
      assert.ok(boxes.length > 5);
      for (const box of boxes) {
        assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height);
        for (const other of boxes) {
          const apart =
            box.x + box.width <= other.x ||
            other.x + other.width <= box.x ||
            box.y + box.height <= other.y ||
            other.y + other.height <= box.y;
          assert.ok(apart || box === other, `${box.id} overlaps ${other.id}`);
        }
      }
      for (const line of lines) assert.ok(line.side !== null || line.y2 > line.y1 - 1e-6);
      const arriving = lines.filter(line => line.target >= 0);
      for (const line of arriving) {
        const box = boxes.find(({ id }) => id === `v${line.target}`);
        assert.ok(Math.abs(box.y - line.y2) < 1e-6 && line.x2 > box.x && line.x2 < box.x + box.width);
      }
    }
  });
}

test("the walk visits each operation after all that use its result", () => {
  for (const graph of graphs) {
    const walk = newWalk(graph, atStart(graph));
    walk.ops.forEach((op, i) => {
      assert.equal(opAt(walk, i + 1), op);
      assert.equal(stepOf(graph, walk, op), i + 1);
      for (const edge of graph.uses[op.index])
        if (edge.gradient) assert.ok(walk.steps.get(edge.target) < i + 1);
    });
  }
});
