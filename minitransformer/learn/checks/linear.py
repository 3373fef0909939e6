"""The gradients of a linear layer."""

from types import ModuleType

import numpy as np

import minigrad as mg

from ..checking import Wrong, compare

LESSON = 4
REASONING = "shapes"
HINTS = (
    "y[n, o] = sum_i x[n, i] W[o, i] + b[o]. Differentiate by one x[n, i]: which y's depend on it?",
    "The gradient of x[n, i] is sum_o g[n, o] W[o, i]: a matrix product without a transpose. For W[o, i] the "
    "sum is over n.",
    "g @ weight, g.T @ x, and g summed over its first axis.",
)
SHAPES = (
    "Write the shapes beside the factors: (N, out) (out, in) is (N, in), and (out, N) (N, in) is (out, in)."
)


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    for rows, inputs, outputs in ((3, 4, 2), (3, 3, 3)):  # 3 x 3: a wrong transpose has the right shape
        shapes = ((rows, inputs), (outputs, inputs), (outputs,), (rows, outputs))
        _check(answer, *(random.normal(size=shape) for shape in shapes))


def _check(answer: ModuleType, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, g: np.ndarray) -> None:
    result = answer.linear_gradients(x, weight, g)
    if not isinstance(result, tuple) or len(result) != 3:
        raise Wrong("linear_gradients returns something other than three gradients", "Keep its last line.")
    leaves = [mg.tensor(array, requires_grad=True) for array in (x, weight, bias)]
    y = leaves[0] @ leaves[1].mT + leaves[2]
    right = mg.autograd.grad([y], leaves, grad_outputs=[mg.tensor(g)])
    mistakes: list[dict[str, np.ndarray]] = [
        {"the gradient of x uses W^T, with which forward multiplies: here W itself": _product(g, weight.T)},
        {"the gradient of W is transposed: W has shape (out, in)": x.T @ g},
        {
            "the gradient of the bias is not summed: the bias is added to every row": g,
            "the gradient of the bias is a mean over the rows, not their sum": g.mean(0),
            "the gradient of the bias is summed over the outputs, not over the rows": g.sum(1),
        },
    ]
    for name, found, expected, known in zip("xWb", result, right, mistakes, strict=True):
        compare(f"the gradient of {name}", found, expected, known, SHAPES)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product a b; an empty array if the shapes do not fit."""
    return a @ b if a.shape[1] == b.shape[0] else np.empty(0)
