// What each array of a record is computed from: one node an array, in the order of computation.
//
// A node has the name of its array, the `kind` of step, the names it comes `from`, and the step's weights.
// `derive.js` has one rule a kind: how a number comes about. `gradients.js` has the same backward.

/** All nodes by name, of a model's structure. */
export function makePlan(structure) {
  const nodes = new Map();
  const add = (name, kind, from, more = {}) => {
    nodes.set(name, { name, kind, from, ...more });
    return name;
  };
  let memory = null;
  for (const stack of structure.stacks) memory = planStack(add, stack, memory);
  planOutput(add, structure, memory);
  return nodes;
}

function planStack(add, stack, memory) {
  const side = stack.name === "decoder" ? "target" : "source";
  let x = planEmbedding(add, stack, side);
  if (stack.recurrent) return planRecurrent(add, stack, x);
  for (let i = 0; i < stack.layers; i++) {
    const path = `${stack.name}.layers.${i}`;
    x = planResidual(add, stack, `${path}.residual1`, x, input =>
      planAttention(add, stack, `${path}.self_attention`, input, input, stack.causal),
    );
    if (stack.cross) {
      x = planResidual(add, stack, `${path}.residual2`, x, input =>
        planAttention(add, stack, `${path}.cross_attention`, input, memory, false),
      );
    }
    x = planResidual(add, stack, `${path}.residual${stack.cross ? 3 : 2}`, x, input =>
      planFeedForward(add, stack, `${path}.feed_forward`, input),
    );
  }
  if (stack.finalNorm) x = planNorm(add, stack.norm, stack.name, x);
  return add(`${stack.name}.output`, "same", [x], { side });
}

/** The matrices of a recurrent layer hold those of all gates, one below the other. */
const GATES = {
  rnn: [["hidden", "tanh"]],
  lstm: [
    ["input_gate", "sigmoid"],
    ["forget_gate", "sigmoid"],
    ["candidate", "tanh"],
    ["output_gate", "sigmoid"],
  ],
  gru: [
    ["reset_gate", "sigmoid"],
    ["update_gate", "sigmoid"],
    ["candidate", "tanh"],
  ],
};

/** A step that uses the state of the step before is `delayed`: an input's row t - 1 for its row t. */
function planRecurrent(add, stack, x) {
  const { recurrent: type, hidden: H } = stack;
  for (let i = 0; i < stack.layers; i++) {
    const name = part => `${stack.name}.${i}.${part}`;
    const weight = part => ({ weight: `rnn.weight_${part}_l${i}`, bias: `rnn.bias_${part}_l${i}` });
    add(name("from_input"), "linear", [x], weight("ih"));
    add(name("from_state"), "linear", [name("hidden")], { ...weight("hh"), delayed: 0 });
    GATES[type].forEach(([gate, activation], k) => {
      const reset = type === "gru" && gate === "candidate" ? [name("reset_gate")] : [];
      add(name(gate), "gate", [name("from_input"), name("from_state"), ...reset], {
        first: k * H,
        activation,
      });
    });
    if (type === "lstm") {
      add(name("kept"), "times", [name("forget_gate"), name("cell")], { delayed: 1 });
      add(name("added"), "times", [name("input_gate"), name("candidate")]);
      add(name("cell"), "add", [name("kept"), name("added")]);
      add(name("cell_tanh"), "activate", [name("cell")], { activation: "tanh" });
      add(name("hidden"), "times", [name("output_gate"), name("cell_tanh")]);
    } else if (type === "gru") {
      add(name("kept"), "times", [name("update_gate"), name("hidden")], { delayed: 1 });
      add(name("added"), "times", [name("update_gate"), name("candidate")], { complement: true });
      add(name("hidden"), "add", [name("kept"), name("added")]);
    }
    x = name("hidden");
  }
  return add(`${stack.name}.output`, "same", [x], { side: "source" });
}

function planEmbedding(add, stack, side) {
  const name = part => `${stack.name}.${part}`;
  let x;
  if (stack.embedding) x = add(name("embedded"), "lookup", [], { side, weight: stack.embedding });
  else {
    add("patches", "pixels", [], { side });
    add(name("embedded"), "linear", ["patches"], {
      weight: "patches.projection.weight",
      bias: "patches.projection.bias",
    });
    add(name("class"), "weight", [], { weight: "class_token" });
    x = add(name("tokens"), "stack", [name("class"), name("embedded")]);
  }
  if (stack.factor) x = add(name("scaled"), "scale", [x], { factor: stack.factor, says: "√d" });
  const parts = [x];
  if (stack.segments) parts.push(add(name("segments"), "segment", [], { weight: "token_types.weight" }));
  if (stack.positions !== "none") {
    const kind = stack.positions === "sinusoidal" ? "sinusoid" : "position";
    parts.push(
      add(name("positions"), kind, [], { weight: stack.positionWeight, halves: stack.halves, side }),
    );
  }
  if (stack.embeddingNorm) {
    add(name("embedding_sum"), "add", parts, { side });
    x = planNorm(add, stack.norm, stack.name, name("embedding_sum"), "embedding_norm", stack.embeddingNorm);
    return add(name("input"), "same", [x], { side });
  }
  if (parts.length === 1) return add(name("input"), "same", parts, { side });
  return add(name("input"), stack.concatenate ? "join" : "add", parts, { side });
}

/** norm(x + f(x)) after the paper, or x + f(norm(x)). */
function planResidual(add, stack, path, x, f) {
  if (stack.normFirst) return add(`${path}.sum`, "add", [x, f(planNorm(add, stack.norm, path, x))]);
  return planNorm(add, stack.norm, path, add(`${path}.sum`, "add", [x, f(x)]));
}

function planNorm(
  add,
  norm,
  path,
  x,
  word = "norm",
  weight = path === "head" ? "head.words.norm" : `${path}.norm`,
) {
  const name = part => `${path}.${word}.${part}`;
  const centred = norm.kind === "layer" ? [add(name("mean"), "mean", [x])] : [];
  add(name("rstd"), "rstd", [x, ...centred]);
  add(name("normalized"), "normalize", [x, name("rstd"), ...centred]);
  const bias = norm.bias ? `${weight}.bias` : null;
  return add(name("output"), "affine", [name("normalized")], { weight: `${weight}.weight`, bias });
}

function planAttention(add, stack, path, x, memory, causal) {
  const { heads, kvHeads, headWidth } = stack;
  const name = part => `${path}.${part}`;
  const weight = `${path}.in_proj_weight`;
  const bias = `${path}.in_proj_bias`;
  const project = (part, from, first, count) =>
    add(name(part), "project", [from], {
      weight,
      bias,
      first,
      heads: count,
      width: headWidth,
      letter: part[0],
    });
  const q = heads * headWidth;
  const kv = kvHeads * headWidth;
  const turned = stack.rotary && path.endsWith("self_attention");
  const suffix = turned ? "_unrotated" : "";
  project(`q${suffix}`, x, 0, heads);
  project(`k${suffix}`, memory, q, kvHeads);
  if (turned) for (const part of ["q", "k"]) add(name(part), "rotate", [name(`${part}_unrotated`)]);
  project("v", memory, q + kv, kvHeads);
  add(name("scores"), "scores", [name("q"), name("k")], { groups: heads / kvHeads });
  add(name("scaled"), "scale", [name("scores")], {
    factor: stack.scale,
    says: stack.scale === 1 ? "1: this model does not scale" : "1/√d_k",
    switch: "scale",
  });
  const biased = stack.bias && path.endsWith("self_attention");
  if (biased)
    add(name("bias"), "distance", [], {
      weight: stack.bias === "t5" ? `${stack.name}.positions.weight` : null,
      causal: stack.causal,
    });
  add(name("masked"), "mask", [name("scaled"), ...(biased ? [name("bias")] : [])], { causal });
  add(name("weights"), "softmax", [name("masked")]);
  add(name("heads"), "mix", [name("weights"), name("v")], { groups: heads / kvHeads, path });
  add(name("concat"), "concat", [name("heads")]);
  return add(name("output"), "linear", [name("concat")], {
    weight: `${path}.out_proj.weight`,
    bias: `${path}.out_proj.bias`,
  });
}

function planFeedForward(add, stack, path, x) {
  const linear = (part, from) =>
    add(`${path}.${part}`, "linear", [from], {
      weight: `${path}.${part}.weight`,
      bias: `${path}.${part}.bias`,
    });
  const inner = [linear("linear1", x)];
  if (stack.gated) inner.push(linear("linear3", x));
  add(`${path}.hidden`, "activate", inner, { activation: stack.activation });
  const weights = { weight: `${path}.linear2.weight`, bias: `${path}.linear2.bias` };
  return add(`${path}.output`, "linear", [`${path}.hidden`], weights);
}

function planOutput(add, structure, states) {
  const { head, weight, bias } = structure.output;
  const last = structure.stacks.at(-1);
  let x = states;
  if (head === "masked_lm") {
    x = add("head.linear", "linear", [x], {
      weight: "head.words.linear.weight",
      bias: "head.words.linear.bias",
    });
    x = add("head.hidden", "activate", [x], { activation: last.activation });
    x = planNorm(add, last.norm, "head", x);
  } else if (head === "similarity") {
    x = add("head.average", "average", [x]);
    x = add("head.unit", "unit", [x]);
  } else if (head && head !== "token_classification") {
    x = add("head.first", "first", [x]);
    if (structure.output.pooler) {
      x = add("head.linear", "linear", [x], { weight: "head.pooler.weight", bias: "head.pooler.bias" });
      x = add("head.pooled", "activate", [x], { activation: structure.output.pooler });
    }
  }
  if (structure.output.factor)
    x = add("head.scaled", "scale", [x], { factor: structure.output.factor, says: "1/√d" });
  add("logits", "linear", [x], { weight, bias });
  add("probabilities", "softmax", ["logits"]);
}
