"""Cross-entropy of logits."""

from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_gradient, compare, result_of

LESSON = 5
REASONING = "derivation"
HINTS = (
    "d/dx_j of log(sum exp(x)) is exp(x_j) / sum exp(x), which is p_j. And d/dx_j of -x_t is -1 if j = t.",
    "So a row's gradient is p, with 1 subtracted at the target. Compute p without overflow: exp of the "
    "log-probabilities.",
    "log_p = shifted - log(sum(exp(shifted))); loss = -log_p[rows, targets].mean(); the gradient is "
    "exp(log_p), minus 1 at [rows, targets], times g / N.",
)
TARGETS = [2, 0, 1]


def check(answer: ModuleType) -> None:
    logits = mg.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)
    fn = lambda x: answer.cross_entropy(x, targets=np.array(TARGETS))
    per_row = F.cross_entropy(logits, mg.tensor(TARGETS), reduction="none").numpy()
    chosen = np.take_along_axis(logits.numpy(), np.array(TARGETS)[:, None], 1)
    compare(
        "cross_entropy(logits, targets)",
        result_of(answer.cross_entropy, logits, np.array(TARGETS)),
        per_row.mean(),
        {
            "the loss is the sum over the rows, not their mean": per_row.sum(),
            "the sign is wrong: -log p is positive": -per_row.mean(),
            "the loss is one number for each row, not their mean": per_row,
            "log(sum(exp(x))) is missing": -chosen.mean(),
            "the loss is the mean probability, without the logarithm": np.exp(-per_row).mean(),
            "the logarithm is to base 2": per_row.mean() / np.log(2),
        },
    )
    detached = logits.detach()
    for name, x in {"1000 * logits": detached * 1000, "logits - 1000": detached - 1000}.items():
        compare(
            f"cross_entropy({name}, targets)",
            fn(x),
            F.cross_entropy(x, mg.tensor(TARGETS)),
            advice="exp overflows above 709 and is 0 below -745: always subtract the row's largest logit "
            "before exp, and do not take the logarithm of a probability that has become 0.",
        )
    check_gradient("cross_entropy(logits, targets)", fn, [logits])
