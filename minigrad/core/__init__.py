"""The autograd engine: tensors, ops, the recorded graph, and backward.

Read these first, in this order:

    tensor    an array that knows its node (the first 100 lines)
    op        a rule: a value, and how a gradient flows back to each input (see `arithmetic`);
              and a call: arrays and edges in, the rule, a node out
    backward  the nodes and edges of the graph, and the backward pass over them

Then `composites` (ops written with other ops) and `higher_order` (how a gradient is differentiated again).

What these use: `arguments` (tensors of one dtype and device), `namespace` (one rule for arrays and Tensors),
`versions` (in-place changes), `closures` (which arrays a gradient function keeps), `sums` (stable sums, and
sums over broadcast axes), `hooks`, `modes` with `generator_context`, `dtypes`, `half` (16 bits), `precision`
(autocast), `costs` (FLOPs), `errors`, `argument_checks` and `error_context` (errors in the user's terms),
`frames` (the line of the user's code), `user_rules` (checks of users' rules), `registry` (the metadata of
every op, by name), `printing`, `trees` (nested dicts, lists and tuples).
Built on them: `grad`, `checkpointing`, `random` (the keys of draws).
Where other parts attach: `kernels`, `devices` (array backends), `observers`, `methods`.
"""
