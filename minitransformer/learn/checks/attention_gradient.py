"""Attention's gradients."""

from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases, with_pairs

LESSON = 9
REASONING = "derivation"
HINTS = (
    "Begin at the end: out = weights v. That gives the gradient of v, and of the weights. Each has the "
    "shape of what it belongs to.",
    "of_weights = g @ v.mT is (T, S). Softmax: of_scaled = weights * (of_weights - sum), with the sum of "
    "of_weights * weights along the keys. Then the scale, and then q k^T, a product again.",
    "gradient_of_v = weights.mT @ g; of_scores = weights * (of_weights - (of_weights * weights).sum(-1, "
    "keepdims=True)) * scale; gradient_of_q = of_scores @ k; gradient_of_k = of_scores.mT @ q.",
)
ADVICE = (
    "Back through out = weights v, softmax, the scale, q k^T: write each gradient's shape beside its line."
)
SIZES = (  # T, S, d_k, d_v, batch axes; first square matrices, whose transposes have the right shapes
    (3, 3, 3, 3, ()), (2, 4, 3, 5, ()), (3, 2, 4, 4, (2,)), (2, 3, 2, 3, (2, 2)), (1, 1, 2, 2, ()),
)  # fmt: skip


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    cases = []
    for queries, keys, d_k, d_v, batch in SIZES:
        shapes = ((queries, d_k), (keys, d_k), (keys, d_v), (queries, d_v))
        cases.append(tuple(random.normal(size=(*batch, *shape)) for shape in shapes))
    for some in (cases[:1], cases):  # first square matrices: in others, a wrong transpose raises an error
        for part, name in ((2, "v"), (0, "q"), (1, "k")):
            _check(answer, some, part, name)


def _check(answer: ModuleType, cases: list[tuple[np.ndarray, ...]], part: int, name: str) -> None:
    """Check the gradient of q, k or v (`part` 0, 1 or 2)."""

    def with_mistakes(*arguments: np.ndarray, **changes: Any) -> Any:
        return _gradients(*arguments, **changes)[part]

    def call(*arguments: np.ndarray) -> str:
        return (
            f"the gradient of {name} for q, k, v of shapes {', '.join(str(x.shape) for x in arguments[:3])}"
        )

    steps = (STEPS_OF_V, {}) if name == "v" else (*STEPS, STEPS_OF_Q if name == "q" else STEPS_OF_K)
    mistakes = with_pairs(with_mistakes, steps)
    check_cases(answer.attention_gradients, cases, with_mistakes, mistakes, call, ADVICE, count=3, part=part)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _gradients(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    g: np.ndarray,
    *,
    of_v: str = "",
    of_weights: str = "",
    of_scaled: str = "",
    scale: str = "",
    of_q: str = "",
    of_k: str = "",
) -> tuple[Any, Any, Any]:
    """The right gradients or, with other arguments, gradients with mistakes."""
    root = np.sqrt(q.shape[-1])
    p = _softmax(q @ k.mT / root)
    if of_v:
        return None, None, _of_v(p, v, g, root, of_v)
    dp = {"": lambda: g @ v.mT, "not transposed": lambda: g @ v, "g": lambda: g, "v g": lambda: (v @ g.mT).mT}
    dp_found = dp[of_weights]()
    if dp_found.shape != p.shape:
        raise ValueError("these shapes do not fit")
    ds = _of_scaled(p, dp_found, of_scaled)
    factors = {
        "": 1 / root, "missing": 1.0, "twice": 1 / root**2, "wrong way": root, "T": 1 / np.sqrt(q.shape[-2]),
        "d_v": 1 / np.sqrt(v.shape[-1]),
    }  # fmt: skip
    ds = ds * factors[scale]
    gradient_of_q = {
        "": lambda: ds @ k,
        "ds.T": lambda: ds.mT @ k,
        "q": lambda: ds @ q,
        "p": lambda: p @ k,
        "v": lambda: ds @ v,
        "of k": lambda: ds.mT @ q,
    }
    gradient_of_k = {
        "": lambda: ds.mT @ q,
        "ds": lambda: ds @ q,
        "k": lambda: ds.mT @ k,
        "transposed": lambda: (ds.mT @ q).mT,
        "p": lambda: p.mT @ q,
        "g": lambda: ds.mT @ g,
        "v": lambda: ds.mT @ v,
        "of q": lambda: ds @ k,
    }
    return gradient_of_q[of_q](), gradient_of_k[of_k](), p.mT @ g


def _of_v(p: np.ndarray, v: np.ndarray, g: np.ndarray, root: float, how: str) -> np.ndarray:
    """The gradient of v with the mistake `how`."""
    ways = {
        "p": lambda: p @ g,
        "g": lambda: g,
        "transposed": lambda: (p.mT @ g).mT,
        "scaled": lambda: p.mT @ g / root,
        "v": lambda: p.mT @ v,
        "g v": lambda: g @ v.mT,
        "p v": lambda: p @ v,
        "sum": lambda: np.broadcast_to(g.sum(-2, keepdims=True), v.shape),
        "g.T": lambda: g.mT @ p,
    }
    return ways[how]()


def _of_scaled(p: np.ndarray, dp: np.ndarray, how: str) -> np.ndarray:
    """The gradient of the scaled scores, right or with the mistake `how`."""
    ways = {
        "": lambda: p * (dp - (dp * p).sum(-1, keepdims=True)),
        "no softmax": lambda: dp,
        "p dp": lambda: p * dp,
        "diagonal": lambda: p * (1 - p) * dp,
        "axis": lambda: p * (dp - (dp * p).sum(-2, keepdims=True)),
        "all": lambda: p * (dp - (dp * p).sum(axis=(-2, -1), keepdims=True)),
        "sum of dp": lambda: p * (dp - dp.sum(-1, keepdims=True)),
        "mean": lambda: p * (dp - (dp * p).mean(-1, keepdims=True)),
        "mean of dp": lambda: p * (dp - dp.mean(-1, keepdims=True)),
        "no factor": lambda: dp - (dp * p).sum(-1, keepdims=True),
        "plus": lambda: p * (dp + (dp * p).sum(-1, keepdims=True)),
        "sign": lambda: p * ((dp * p).sum(-1, keepdims=True) - dp),
        "bracket": lambda: p * dp - (dp * p).sum(-1, keepdims=True),
        "axis lost": lambda: p * (dp - (dp * p).sum(-1)),
        "softmax of dp": lambda: _softmax(dp),
        "p twice": lambda: p * (p * dp - (dp * p).sum(-1, keepdims=True)),
    }
    return ways[how]()


STEPS_OF_V: dict[str, dict[str, Any]] = {
    "the weights are not transposed: out = weights v, and the gradient of the second factor is weights^T g": {
        "of_v": "p"
    },
    "the gradient of v is g itself: each value counts with its weights": {"of_v": "g"},
    "the gradient of v is transposed": {"of_v": "transposed"},
    "the factors are in the wrong order: weights^T g, not g^T weights": {"of_v": "g.T"},
    "the gradient of v is scaled: out = weights v has no scale": {"of_v": "scaled"},
    "the gradient of v does not depend on g: weights^T g": {"of_v": "v"},
    "this is the output, weights v: its gradient for v is weights^T g": {"of_v": "p v"},
    "this is g v^T, the gradient of the weights, which are the other factor of out": {"of_v": "g v"},
    "each value has the sum of g: the weights are missing": {"of_v": "sum"},
}
STEPS: tuple[dict[str, dict[str, Any]], ...] = (
    {
        "the gradient of the weights is g v: it is g v^T": {"of_weights": "not transposed"},
        "the gradient of the weights is g itself: out = weights v, so it is g v^T": {"of_weights": "g"},
    },
    {
        "softmax is left out on the way back: its gradient is y (g - sum(g y))": {"of_scaled": "no softmax"},
        "of softmax's gradient y (g - sum(g y)) the sum is missing": {"of_scaled": "p dp"},
        "only the diagonal of softmax's derivative is there, y (1 - y): each weight depends on all scores": {
            "of_scaled": "diagonal"
        },
        "softmax's sum goes along the queries: it goes along the keys, the last axis": {"of_scaled": "axis"},
        "softmax's sum goes over everything: each query has its own, so keep the axis": {"of_scaled": "all"},
        "softmax's sum is sum(g), without the weights: sum(g y)": {"of_scaled": "sum of dp"},
        "softmax's sum is a mean: sum(g y)": {"of_scaled": "mean"},
        "softmax's sum is the mean of g, without the weights: sum(g y)": {"of_scaled": "mean of dp"},
        "softmax's gradient lacks the factor y before the bracket: y (g - sum(g y))": {
            "of_scaled": "no factor"
        },
        "the factor y is inside of the bracket, before g alone: y (g - sum(g y))": {"of_scaled": "bracket"},
        "softmax's sum has lost its axis, so it is subtracted from columns, not from rows: keepdims": {
            "of_scaled": "axis lost"
        },
        "this is softmax itself, of the gradient: its gradient is y (g - sum(g y))": {
            "of_scaled": "softmax of dp"
        },
        "softmax's sum is added: y (g - sum(g y))": {"of_scaled": "plus"},
        "softmax's gradient has the wrong sign: y (g - sum(g y))": {"of_scaled": "sign"},
        "softmax's gradient has y twice: y (g - sum(g y)), with g alone in the bracket": {
            "of_scaled": "p twice"
        },
    },
    {
        "the scale, 1 / sqrt(d_k), is missing: it is a factor of the gradient, too": {"scale": "missing"},
        "the scale is there twice": {"scale": "twice"},
        "divided by the scale, not multiplied: s = 1 / sqrt(d_k) is a factor of the gradient": {
            "scale": "wrong way"
        },
        "the scale is 1 / sqrt(T): it is 1 / sqrt(d_k)": {"scale": "T"},
        "the scale is 1 / sqrt(d_v): it is 1 / sqrt(d_k)": {"scale": "d_v"},
    },
)
STEPS_OF_Q: dict[str, dict[str, Any]] = {
    "the scores' gradient is transposed: for q it is (T, S) (S, d_k)": {"of_q": "ds.T"},
    "the scores' gradient is multiplied by q: q is multiplied by k in the scores, so its gradient by k": {
        "of_q": "q"
    },
    "the scores' gradient is multiplied by v: the scores are made of q and k, so q's has k": {"of_q": "v"},
    "this is the gradient of k: return them in the order q, k, v": {"of_q": "of k"},
    "k is multiplied by the weights, not by the scores' gradient": {"of_q": "p"},
}
STEPS_OF_K: dict[str, dict[str, Any]] = {
    "the scores' gradient is not transposed: for k it is (S, T) (T, d_k)": {"of_k": "ds"},
    "the scores' gradient is multiplied by k: k is multiplied by q in the scores, so its gradient by q": {
        "of_k": "k"
    },
    "the result is transposed: it has the shape of k": {"of_k": "transposed"},
    "the scores' gradient is multiplied by g, which is in it already: for k it is multiplied by q": {
        "of_k": "g"
    },
    "the scores' gradient is multiplied by v: the scores are made of q and k, so k's has q": {"of_k": "v"},
    "this is the gradient of q: return them in the order q, k, v": {"of_k": "of q"},
    "q is multiplied by the weights, not by the scores' gradient": {"of_k": "p"},
}
