"""Random programs of several operations: values, first and second derivatives as PyTorch's."""

import numpy as np
import pytest

import minigrad as mg
from tests.kernel_sets import BOTH

torch = pytest.importorskip("torch", reason="the parity extra is not installed")

PROGRAMS = 10_000
SHAPES = [(3,), (2, 3), (3, 1), (2, 1, 3), (4, 3)]
# functions of the library `lib`, a tensor x and one more, y; a value far from 0 is brought back by tanh
UNARY = {
    "neg": lambda lib, x: -x,
    "tanh": lambda lib, x: lib.tanh(x),
    "exp": lambda lib, x: lib.exp(lib.tanh(x)),
    "log": lambda lib, x: lib.log(x * x + 1),
    "sqrt": lambda lib, x: lib.sqrt(x * x + 0.5),
    "sigmoid": lambda lib, x: lib.sigmoid(x),
    "square": lambda lib, x: lib.tanh(x) ** 2,
    "abs": lambda lib, x: lib.abs(x),
    "relu": lambda lib, x: lib.relu(x),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu_tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda lib, x: lib.nn.functional.silu(x),
    "softplus": lambda lib, x: lib.nn.functional.softplus(x),
    "softmax": lambda lib, x: lib.softmax(x, -1),
    "log_softmax": lambda lib, x: lib.log_softmax(x, -1),
    "logsumexp": lambda lib, x: lib.logsumexp(x, -1, keepdim=True),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (x.shape[-1],), eps=0.1),
    "sum": lambda lib, x: x.sum(0, keepdim=True),
    "mean": lambda lib, x: x.mean(-1, keepdim=True),
    "amax": lambda lib, x: x.amax(-1, keepdim=True),
    "var": lambda lib, x: lib.tanh(x).var(-1, keepdim=True, correction=0),
    "cumsum": lambda lib, x: lib.cumsum(x, -1) / x.shape[-1],
    "flip": lambda lib, x: x.flip(-1),
    "roll": lambda lib, x: x.roll(1, -1),
    "index": lambda lib, x: x[..., [0, -1, 0]],
    "slice": lambda lib, x: x[..., ::2],
    "transpose": lambda lib, x: x.unsqueeze(0).transpose(0, -1),
    "reshape": lambda lib, x: x.reshape(-1, 1),
    "cat": lambda lib, x: lib.cat([x, 2 * x], -1)[..., :3],
    "detach": lambda lib, x: x * lib.tanh(x).detach(),
    "clone": lambda lib, x: x.clone().mul_(0.5),
}
BINARY = {
    "add": lambda lib, x, y: x + y,
    "subtract": lambda lib, x, y: 0.5 - x - y,
    "multiply": lambda lib, x, y: x * y,
    "divide": lambda lib, x, y: x / (y * y + 1),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "where": lambda lib, x, y: lib.where(x > 0, x * y, y),
    "outer": lambda lib, x, y: x.reshape(-1, 1)[:4] @ y.reshape(1, -1)[:, :3],
    "matmul": lambda lib, x, y: lib.nn.functional.linear(x.reshape(-1, 1), y.reshape(-1, 1)[:3]),
}


def program(seed):
    """Shapes of the leaves, and steps (name, the places of its operands among all values)."""
    rng = np.random.default_rng(seed)
    shapes = [SHAPES[i] for i in rng.integers(len(SHAPES), size=2)]
    steps = []
    for count in range(2, rng.integers(5, 10)):
        name = rng.choice([*UNARY, *BINARY, *BINARY])  # twice, since there are fewer
        steps.append((str(name), rng.integers(max(0, count - 3), count, 1 + (name in BINARY)).tolist()))
    return shapes, steps


def run(lib, leaves, steps):
    values = list(leaves)
    for name, places in steps:
        operands = [values[i] for i in places]
        try:
            y = (UNARY | BINARY)[name](lib, *operands)
        except (RuntimeError, ValueError, mg.MinigradError):  # the shapes do not fit, in either library
            y = operands[0] * 1
        values.append(y if y.numel() < 50 else y.reshape(-1)[:9])
    return lib.tanh(values[-1]), [tuple(y.shape) for y in values]


def derivatives(lib, arrays, steps):
    """The value, and the first and second derivatives of a weighted sum of it."""
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    weights = lambda x: lib.cos(lib.arange(x.numel(), dtype=x.dtype)).reshape(x.shape)
    y, shapes = run(lib, leaves, steps)
    grads = lambda total, again: lib.autograd.grad(total, leaves, create_graph=again, allow_unused=True)
    total = (y * weights(y)).sum() + sum((x * 0.1).sum() for x in leaves)
    first = grads(total, True)
    # x**2: each leaf has a second derivative
    total = sum((g * weights(g)).sum() for g in first) + sum((x * x).sum() for x in leaves)
    return shapes, [x.detach().numpy() for x in (y, *first, *grads(total, False))]


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("part", range(10))
def test_derivatives_of_random_programs_match_pytorch(part, which):
    for seed in range(part, PROGRAMS, 10):
        shapes, steps = program(seed)
        rng = np.random.default_rng(seed)
        arrays = [rng.normal(size=shape) for shape in shapes]
        expected_shapes, expected = derivatives(torch, arrays, steps)
        dtype, bound = (np.float64, 1e-9) if seed % 2 else (np.float32, 2e-3)
        with mg.kernels.use(which):
            found_shapes, found = derivatives(mg, [a.astype(dtype) for a in arrays], steps)
        assert found_shapes == expected_shapes, (seed, steps)
        for ours, theirs in zip(found, expected, strict=True):
            error = np.abs(ours - theirs) / (1 + np.abs(theirs).max(initial=0))
            assert error.max(initial=0) <= bound, (seed, steps)
