"""What a tensor, an op, a node and a walk back are.

To read first, in this order:

    tensor          an array that knows how it was computed (its first 60 lines)
    arithmetic      ops: a value, and how a gradient flows back to each input
    node            what is recorded
    call            what happens when an op is called: arrays and edges in, the rule, a node out
    backward        the walk back
    op, composites  what an op is, and all that is known of it; ops that are made of other ops
    higher_order    how a gradient is differentiated again

What these use: `arguments` (tensors of one dtype and device), `namespace` (one rule for arrays and Tensors),
`versions` (changes in place), `closures` (which arrays a gradient function keeps), `sums` (over broadcast
axes), `hooks`, `modes` with `generators`, `dtypes`, `half` (16 bits), `precision` (autocast), `costs`
(FLOPs), `errors`, `checks` and `explain` (mistakes in the user's terms), `frames` (the user's line),
`user_rules`, `registry` (ops by name), `printing`, `trees`.
Made of them: `composites` (ops written with other ops), `grad`, `checkpointing` with `random` (the keys of
draws).
Where other parts attach: `kernels`, `devices` (array backends), `observers`, `methods`.
"""
