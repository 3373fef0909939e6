"""Scaled dot-product attention."""

import math
from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import Wrong, compare

LESSON = 8
REASONING = "shapes"
HINTS = (
    "Scores, mask, softmax, weighted sum. Write the shape of each beside it before the code.",
    "The scores are (..., T, S): every query times every key. Softmax goes along S, the keys, so that each "
    "query's weights sum to 1.",
    "scores = q @ k.mT / sqrt(d_k); set them to -inf where the mask is False; weights = softmax(scores, -1); "
    "then set them to 0 where the mask is False: softmax of a row of -inf is NaN; out = weights @ v.",
)


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    q, k, v = (mg.tensor(random.normal(size=shape)) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))
    raw = q @ k.mT
    scaled = raw / math.sqrt(4)
    softmax = F.softmax
    _check_weights(answer, q, k, v, raw, scaled)
    out = _results(answer, q, k, v)[0]
    compare("attention(q, k, v)[0]", out, softmax(scaled, -1) @ v, {"the values are not weighted": v})
    mask = random.random((3, 5)) < 0.6
    mask[:, 0] = True
    mask[:, 1] = False
    may = mg.tensor(mask)
    added = np.where(mask, 0.0, 1.0)
    compare(
        "attention(q, k, v, mask)[1]",
        _results(answer, q, k, v, mask)[1],
        softmax(scaled.masked_fill(~may, -math.inf), -1),
        {
            "the mask has no effect": softmax(scaled, -1),
            "the mask is the wrong way round: True means that a query may attend": softmax(
                scaled.masked_fill(may, -math.inf), -1
            ),
            "the mask is applied after softmax: the weights no longer sum to 1, and hidden keys leak into "
            "the others' weights, which are divided by a sum that contains them": softmax(scaled, -1) * may,
            "hidden scores are set to 0, not to -inf: exp(0) is 1, so hidden keys still get weight": softmax(
                scaled * may, -1
            ),
            "hidden scores are set to 0, not to -inf: exp(0) is 1, and the others' weights are divided by "
            "a sum that contains it": softmax(scaled * may, -1) * may,
            "the mask is added as 0 and 1, not as 0 and -inf": softmax(scaled - mg.tensor(added), -1),
        },
        "Softmax gives weight 0 to a score of -inf: set the score where the mask is False.",
    )
    _check_large_scores(answer, q, k, v, scaled)
    _check_empty_row(answer, q, k, v, scaled, mask)


def _check_large_scores(
    answer: ModuleType, q: mg.Tensor, k: mg.Tensor, v: mg.Tensor, scaled: mg.Tensor
) -> None:
    """Check with a mask that allows queries of the first batch only the two keys with the lowest scores."""
    lowest = scaled.numpy()[0].argsort(-1)[:, :2]
    mask = np.zeros((3, 5), bool)
    np.put_along_axis(mask, lowest, True, -1)
    q, k, scaled = 40 * q, 40 * k, 1600 * scaled
    weights = _results(answer, q, k, v, mask)[1]
    advice = "However negative a finite number is, others may be as small: set hidden scores to -inf."
    hidden = weights.numpy()[:, ~mask]
    if hidden.any():
        raise Wrong(
            f"with large scores a hidden key gets weight {hidden.max():.3g}, expected exactly 0", advice
        )
    right = F.softmax(scaled.masked_fill(~mg.tensor(mask), -math.inf), -1)
    compare("with large scores, attention(q, k, v, mask)[1]", weights, right, advice=advice)


def _check_empty_row(
    answer: ModuleType, q: mg.Tensor, k: mg.Tensor, v: mg.Tensor, scaled: mg.Tensor, mask: np.ndarray
) -> None:
    mask = mask.copy()
    mask[1] = False
    call = "where the mask is False in all of row 1, attention(q, k, v, mask)"
    advice = "Softmax of a row of -inf is 0 / 0. After softmax, set the weights where the mask is False to 0."

    def weights_with(row: object) -> np.ndarray:
        weights = F.softmax(scaled.masked_fill(~mg.tensor(mask), -math.inf), -1).numpy().copy()
        weights[:, 1] = row
        return weights

    right = weights_with(0.0)
    mistakes = {
        "a query that may attend to no key has weights of NaN; they must be 0": weights_with(math.nan),
        "a query that may attend to no key attends to all of them alike; its weights must be 0": (
            weights_with(1 / mask.shape[1])
        ),
        "a query that may attend to no key attends to all of them; its weights must be 0": (
            weights_with(F.softmax(scaled, -1).numpy()[:, 1])
        ),
    }
    out, weights = _results(answer, q, k, v, mask)
    compare(f"{call}[1]", weights, right, mistakes, advice)
    compare(f"{call}[0]", out, right @ v.numpy(), advice=advice)


def _results(answer: ModuleType, *arguments: object) -> tuple[mg.Tensor, mg.Tensor]:
    """Return the answer's result and weights. Raise Wrong unless both are tensors."""
    results = answer.attention(*arguments)
    if not isinstance(results, tuple) or len(results) != 2:
        raise Wrong("attention returns something other than a pair", "Return `out, weights`.")
    for name, value in zip(("out", "weights"), results, strict=True):
        if not isinstance(value, mg.Tensor):
            raise Wrong(
                f"attention returns `{name}` of type {type(value).__name__}, not a tensor",
                "Return tensors: compute with q, k and v as they are, without NumPy.",
            )
    return results


def _check_weights(
    answer: ModuleType, q: mg.Tensor, k: mg.Tensor, v: mg.Tensor, raw: mg.Tensor, scaled: mg.Tensor
) -> None:
    weights = _results(answer, q, k, v)[1]
    sums = weights.numpy().sum(-1) if weights.shape == raw.shape else np.ones(1)
    compare(
        "attention(q, k, v)[1]",
        weights,
        F.softmax(scaled, -1),
        {
            "the scores are not divided by sqrt(d_k)": F.softmax(raw, -1),
            "the scores are divided by d_k, not by its square root": F.softmax(raw / 4, -1),
            "the scores are divided by the square root of T, not of d_k": F.softmax(raw / math.sqrt(3), -1),
            "the scores are divided by the square root of S, not of d_k": F.softmax(raw / math.sqrt(5), -1),
            "the weights are divided by sqrt(d_k) after softmax: divide the scores": F.softmax(raw, -1) / 2,
            "the scores are multiplied by sqrt(d_k), not divided": F.softmax(raw * 2, -1),
            "softmax goes along the queries: each key's weights sum to 1, not each query's": F.softmax(
                scaled, -2
            ),
            "there is no softmax: the weights are the scaled scores": scaled,
        },
        "Equation 1: softmax(Q K^T / sqrt(d_k)), along the keys, the last axis."
        + ("" if np.allclose(sums, 1) else f" A query's weights sum to 1; here to {sums.flat[0]:.4g}."),
    )
