"""What a tensor, an op, a node and a walk back are.

Read `tensor` (an array that knows how it was computed), `op` (what an op is), `call` (what happens when it is
called), `node` (what is recorded) and `backward` (the walk back); each other file is one thought that these
name: `namespace`, `versions`, `hooks`, `observers`, `higher_order`, `checkpointing`, ...
"""
