// The model that runs in the page of `explain`, against the engine. test_javascript.py writes the data.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { createModel } from "../../minitransformer/explain/assets/model/model.js";
import { inTable, percent, precise } from "../../minitransformer/explain/assets/numbers.js";
import { longDrawing, shortDrawing } from "../../minitransformer/explain/assets/pixels.js";
import { makePlan } from "../../minitransformer/explain/assets/plan.js";

const { payload, structure, inputs, arrays } = JSON.parse(readFileSync(process.env.DATA)).translator;
for (const weight of Object.values(payload.weights)) weight.data = Float32Array.from(weight.data);
const model = createModel(payload);

test("every array of the model is the engine's", () => {
  const found = model.run(inputs, {}).arrays;
  let compared = 0;
  for (const [name, { shape, data }] of Object.entries(arrays)) {
    if (!(name in found)) continue;
    compared += 1;
    assert.deepEqual(found[name].shape, shape, name);
    data.forEach((x, i) =>
      assert.ok(x === found[name].data[i] || Math.abs(x - found[name].data[i]) < 2e-5, name),
    );
  }
  assert.ok(compared > 50);
});

test("the plan says of every array from which ones it follows", () => {
  const plan = makePlan(structure);
  const record = model.run(inputs, {});
  for (const node of plan.values()) {
    assert.ok(node.name in record.arrays, node.name);
    for (const from of node.from) assert.ok(from in record.arrays, `${node.name} from ${from}`);
  }
});

test("gradients agree with finite differences", () => {
  const labels = [8, 9, 3];
  const { weights } = model.backward(model.run(inputs, {}), { labels });
  const name = "decoder.layers.0.feed_forward.linear1.weight";
  const weight = payload.weights[name].data;
  const lossAt = x => {
    const before = weight[0];
    weight[0] = x;
    const { loss } = createModel(payload).backward(createModel(payload).run(inputs, {}), { labels });
    weight[0] = before;
    return loss;
  };
  const numeric = (lossAt(weight[0] + 0.01) - lossAt(weight[0] - 0.01)) / 0.02;
  assert.ok(Math.abs(weights[name].data[0] - numeric) < 1e-3);
});

test("numbers are text", () => {
  assert.deepEqual([inTable(-0.5, 2), inTable(-Infinity, 2), precise(1 / 3)], ["−0.50", "−∞", "0.333333"]);
  assert.deepEqual([1, 0.9999, 0.996, 0.5, 0.01, 0].map(percent), [
    "100 %",
    "99.9 %",
    "99.6 %",
    "50 %",
    "1.0 %",
    "0 %",
  ]);
});

test("a drawing is a short text", () => {
  assert.equal(shortDrawing("aaaq"), "a3q");
  assert.equal(longDrawing("a3q", 2), "aaaq");
  assert.equal(longDrawing("a3", 2), null);
});
