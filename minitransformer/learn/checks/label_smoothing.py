"""Label smoothing."""

from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_gradient, compare, result_of

LESSON = 13
REASONING = "derivation"
HINTS = (
    "With V = 4 and e = 0.1, what does each class get of the 0.1, and what does the right class have then?",
    "Since the q_k of a row sum to 1, its loss is log(sum_i exp(x_i)) - sum_k q_k x_k. Differentiate both "
    "terms by x_j.",
    "q = (1 - e) one_hot + e / V; loss = -(q * log_p).sum(-1).mean(); the gradient is (p - q) g / N with "
    "p = exp(log_p).",
)
CASES = (  # targets, V, e: N and V differ, a class that occurs twice, a single row, no smoothing
    ([2, 0], 5, 0.1),
    ([1, 3, 0, 3, 3, 2], 4, 0.3),
    ([1], 2, 0.2),
    ([0, 2], 3, 0.0),
)


def check(answer: ModuleType) -> None:
    for targets, V, e in CASES:
        _check_target(answer, np.array(targets), V, e)
    for targets, V, e in CASES:
        _check_loss(answer, np.array(targets), V, e)


def _check_target(answer: ModuleType, targets: np.ndarray, V: int, e: float) -> None:
    one_hot = np.eye(V)[targets]
    others = 1 - one_hot
    q = result_of(answer.smoothed_target, targets, V, e)
    advice = "Each row is a distribution: it sums to 1."
    if isinstance(q, np.ndarray) and q.ndim == 2 and abs(q[0].sum() - 1) > 1e-6:
        advice += f" Your first row sums to {q[0].sum():.6g}."
    compare(
        f"smoothed_target({targets.tolist()}, {V}, {e})",
        q,
        (1 - e) * one_hot + e / V,
        {
            "the target is not smoothed: e has no effect": one_hot,
            "e is shared by the V - 1 wrong classes only: it is spread over all V": (
                (1 - e) * one_hot + others * e / (V - 1)
            ),
            "the right class keeps 1 - e, without its share e / V": (1 - e) * one_hot + others * e / V,
            "each class gets the whole of e, not its share e / V": (1 - e) * one_hot + e,
            "each wrong class gets the whole of e, not its share e / V": (1 - e) * one_hot + others * e,
            "nothing is taken from the right class: it keeps a part 1 - e": one_hot + e / V,
            "the right class keeps 1, and the wrong ones get e / V": one_hot + others * e / V,
            "e is taken from the right class and given to no class": (1 - e) * one_hot,
            "e and 1 - e are exchanged: the right class keeps 1 - e": e * one_hot + (1 - e) / V,
            "e is divided by the number of rows, not of classes": (1 - e) * one_hot + e / len(targets),
            "e is divided by V - 1, and the right class has a share, too: then the row sums to more than 1": (
                (1 - e) * one_hot + e / (V - 1)
            ),
            "the right class gets its share e / V alone: it also keeps 1 - e": np.full_like(one_hot, e / V),
            "e / V is taken from the right class, not e": (1 - e / V) * one_hot + e / V,
            "the target is transposed: rows are tokens, columns are classes": (((1 - e) * one_hot + e / V).T),
        },
        advice,
    )


def _check_loss(answer: ModuleType, targets: np.ndarray, V: int, e: float) -> None:
    logits = mg.tensor(np.random.default_rng(0).normal(size=(len(targets), V)), requires_grad=True)
    fn = lambda x: answer.smoothed_loss(x, targets=targets, e=e)
    q = (1 - e) * np.eye(V)[targets] + e / V
    log_p = F.log_softmax(logits.detach(), -1).numpy()
    p = np.exp(log_p)
    per_row = -(q * log_p).sum(-1)
    rows = np.arange(len(targets))
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(q > 0, q * np.log(q), 0).sum(-1)
    call = f"smoothed_loss(logits, {targets.tolist()}, {e})"
    compare(
        call,
        fn(logits),
        per_row.mean(),
        {
            "the loss is the sum over the rows, not their mean": per_row.sum(),
            "the loss is one number for each row, not their mean": per_row,
            "the loss is one number for each class of each row: sum over the classes": -q * log_p,
            "the sign is wrong: -log p is positive": -per_row.mean(),
            "the loss is the mean over the classes, too: a row's loss is the sum over them": (
                (-q * log_p).mean()
            ),
            "the loss has only the term of the right class": -(q * log_p)[rows, targets].mean(),
            "the loss uses the right class alone, not the smoothed target": -log_p[rows, targets].mean(),
            "the loss weights the probabilities, not their logarithms": -(q * p).sum(-1).mean(),
            "log(sum exp(x)) is missing: the logits are not log-probabilities": (
                -(q * logits.numpy()).sum(-1).mean()
            ),
            "the wrong classes count with e, not with their share e / V": (
                -((1 - e) * log_p[rows, targets] + e * log_p.sum(-1)).mean()
            ),
            "the logarithm is taken of the sum, not of each probability": -np.log((q * p).sum(-1)).mean(),
            "p and q are exchanged: the target weights the logarithms of p": (
                -(p * np.log(np.maximum(q, 1e-300))).sum(-1).mean()
            ),
            "q is subtracted, as in the Kullback-Leibler divergence: the entropy of q is not part of the "
            "loss": (per_row - entropy).mean(),
            "the sum goes over the rows and the mean over the classes: it is the other way": (
                -(q * log_p).sum(0).mean()
            ),
        },
        "For each row the sum over the classes of -q log p, then the mean over the rows.",
    )
    weights = mg.tensor(q)
    target = mg.tensor(targets)
    check_gradient(call, fn, [logits], {
        "the gradient is that without smoothing: the one-hot target in place of q": (
            lambda x: F.cross_entropy(x, target)
        ),
        "the gradient is not divided by N: the loss is a mean over the rows": (
            lambda x: F.cross_entropy(x, target, label_smoothing=e, reduction="sum")
        ),
        "the gradient is divided by all numbers of the logits, not by their rows": (
            lambda x: F.cross_entropy(x, target, label_smoothing=e) / V
        ),
        "the gradient is divided by the classes, not by the rows": (
            lambda x: F.cross_entropy(x, target, label_smoothing=e, reduction="sum") / V
        ),
        "the sign of the gradient is wrong: the loss falls where x_j grows and p_j is below q_j": (
            lambda x: -F.cross_entropy(x, target, label_smoothing=e)
        ),
        "the gradient lacks p: log(sum exp(x)) depends on every x_j, too": (
            lambda x: -(weights * x).sum() / len(targets)
        ),
        "the gradient lacks q": lambda x: x.logsumexp(-1).mean(),
        "the gradient has log p in place of p": (
            lambda x: (x * mg.tensor(log_p - q)).sum() / len(targets)
        ),
        "the gradient has the logits in place of p": (
            lambda x: (x * (x.detach() - weights)).sum() / len(targets)
        ),
        "the gradient has the term of the right class only": (
            lambda x: (x * mg.tensor((p - q) * np.eye(V)[targets])).sum() / len(targets)
        ),
        "the gradient of x_j has the term of log p_j only: every log p_k depends on x_j": (
            lambda x: (x * mg.tensor(q * (p - 1))).sum() / len(targets)
        ),
        "the gradient is that of p, -q / p: go on to the logits": (
            lambda x: (x * mg.tensor(-q / p)).sum() / len(targets)
        ),
        "the gradient of log p_k is taken for that of p_k: a factor of p too many": (
            lambda x: (x * mg.tensor(p * (p - q))).sum() / len(targets)
        ),
    })  # fmt: skip
