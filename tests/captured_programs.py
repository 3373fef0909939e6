"""Training steps of random programs: captured, they leave the same bits as they do as they are.

They are of operations that can be captured: none changes a tensor of the graph in place, none sorts.

python -m tests.captured_programs [--count 1000] [--first 0] [--readable]

With --readable composite operations run by their definitions.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn, optim
from minigrad.errors import CaptureError
from minigrad.nn import functional as F

SHAPES = [(3, 4), (4,), (4, 4), (2, 3, 4), (), (3, 1), (1, 4)]
OPTIMIZERS: list[Callable[[Any], Any]] = [
    lambda p: optim.SGD(p, lr=0.05),
    lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    lambda p: optim.AdamW(p, lr=0.01),
    lambda p: optim.RMSprop(p, lr=0.01),
    lambda p: optim.Adagrad(p, lr=0.05),
]
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": Tensor.tanh, "sigmoid": Tensor.sigmoid, "relu": Tensor.relu, "gelu": F.gelu, "silu": F.silu,
    "abs": Tensor.abs, "neg": lambda x: -x, "square": lambda x: x * x, "sin": Tensor.sin,
    "exp": lambda x: x.clamp(max=2.0).exp(), "log": lambda x: (x.abs() + 1).log(),
    "sqrt": lambda x: (x * x + 0.5).sqrt(), "detach": Tensor.detach, "clone": Tensor.clone,
    "flatten": lambda x: x.flatten() if x.ndim else x.reshape(1), "sum": lambda x: x.sum(),
    "dropout": lambda x: F.dropout(x, 0.3), "double": lambda x: x + x, "max": lambda x: x.max(),
    "checkpoint": lambda x: mg.autograd.checkpoint(lambda t: t.sin() * t, x),
    "long": lambda x: (x.reshape(-1)[None].expand(700, -1) * 1.5 - 0.5).relu().mean(0),
}  # fmt: skip
OF_ROWS: dict[str, Callable[[Tensor], Tensor]] = {  # of tensors with axes that are not empty
    "softmax": lambda x: x.softmax(-1), "mean": lambda x: x.mean(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "sums": lambda x: x.sum(0, keepdim=True), "amax": lambda x: x.amax(-1), "first": lambda x: x[0],
    "var": lambda x: x.var(-1, correction=0), "slice": lambda x: x[..., ::2], "flip": lambda x: x.flip(0),
    "cat": lambda x: mg.cat([x, x * 2], 0), "stack": lambda x: mg.stack([x, x.tanh()], -1),
    "chosen": lambda x: x[[0, 0]], "cumsum": lambda x: x.cumsum(-1),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]), "rms": lambda x: F.rms_norm(x, x.shape[-1:]),
    "masked": lambda x: x.masked_fill(x > 0.5, 0.1), "transposed": lambda x: x.transpose(0, -1),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "maximum": mg.maximum,
    "div": lambda x, y: x / (y.abs() + 1), "where": lambda x, y: mg.where(x > y, x, y * 0.5),
}  # fmt: skip


class Program(nn.Module):
    """A model of random operations, the same each time that it is called."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = rng = random.Random(seed)
        mg.manual_seed(seed)
        self.weights = nn.ParameterList(
            [nn.Parameter(mg.randn(*rng.choice(SHAPES))) for _ in range(rng.randint(1, 4))]
        )
        self.choices = [
            (rng.random(), rng.random(), rng.random(), rng.random()) for _ in range(rng.randint(2, 14))
        ]
        self.names: list[str] = []

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pool, self.names = [x, *self.weights], []
        pick = lambda number, of: of[int(number * len(of))]
        for kind, which, first, second in self.choices:
            a, b = pick(first, pool), pick(second, pool)
            if kind < 0.35:
                name, function = pick(which, list(UNARY.items()))
                result = function(a)
            elif kind < 0.65 and a.ndim and a.size:
                name, function = pick(which, list(OF_ROWS.items()))
                result = function(a)
            elif kind < 0.75 and a.ndim == 2 and a.shape[1] == 4:
                name, result = "linear", a @ self.square(b)
            else:
                name, binary = pick(which, list(BINARY.items()))
                if not _fit(a.shape, b.shape):
                    b = b.mean()
                result = binary(a, b)
            self.names.append(name)
            pool.append(result)
        loss = sum(t.mean() for t in pool[1:] if t.size)
        return loss, pool[-1]

    def square(self, x: Tensor) -> Tensor:
        """A matrix (4, 4) of a tensor."""
        return x if x.shape == (4, 4) else x.mean() * mg.ones(4, 4)


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


class Run:
    """So many steps of a program, captured or not."""

    def __init__(self, seed: int, is_captured: bool) -> None:
        self.program = program = Program(seed)
        rng = random.Random(seed + 1)
        optimizer = rng.choice(OPTIMIZERS)(program.parameters())
        clips, none, micro = rng.random() < 0.3, rng.random() < 0.7, rng.choice([1, 1, 2])

        def step(x: Tensor) -> tuple[Tensor, Tensor]:
            optimizer.zero_grad(set_to_none=none)
            for _ in range(micro):
                loss, last = program(x)
                loss.backward()
            if clips:
                optim.clip_grad_norm_(program.parameters(), 0.7)
            optimizer.step()
            return loss.detach(), last.detach()

        self.step = mg.capture(step, "cpu") if is_captured else step
        draw = np.random.default_rng(seed)
        mg.manual_seed(seed)
        self.left: list[bytes] = []
        for i in range(6):
            if i == 4:
                optimizer.param_groups[0]["lr"] *= 0.5
            results = self.step(mg.tensor(draw.normal(size=(3, 4)).astype(np.float32)))
            arrays = [x.array for x in (*results, *program.parameters())]
            arrays += [p.grad.array for p in program.parameters() if p.grad is not None]
            self.left += [np.ascontiguousarray(array).tobytes() for array in arrays]


def difference(seed: int) -> str:
    """What is wrong with a program captured; "" if nothing is."""
    with np.errstate(all="ignore"):
        plain = Run(seed, False)
        try:
            captured = Run(seed, True)
        except CaptureError as error:
            return f"refused: {error}"
    if plain.left != captured.left:
        return f"other numbers, of {plain.program.names}"
    return "" if captured.step.plan is not None else "nothing was recorded"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--readable", action="store_true", help="by the operations' definitions")
    arguments = parser.parse_args()
    mg.fused(not arguments.readable)
    wrong = 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        if found := difference(seed):
            wrong += 1
            print(f"program {seed}: {found}")
    print(f"{arguments.count} programs captured: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
