"""Label smoothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_cases, check_gradient, compare

LESSON = 12
REASONING = "derivation"
HINTS = (
    "With V = 4 and e = 0.1, what does each class get of the 0.1, and what does the right class have then?",
    "Since the q_k of a row sum to 1, its loss is log(sum_i exp(x_i)) - sum_k q_k x_k. Differentiate both "
    "terms by x_j.",
    "q = (1 - e) one_hot + e / V; loss = -(q * log_p).sum(-1).mean(); the gradient is (p - q) g / N with "
    "p = exp(log_p).",
)
CASES = (  # targets, V, e; among them a class that occurs twice, a single row, and no smoothing
    ([2, 0], 5, 0.1),
    ([1, 3, 0, 3, 3, 2], 4, 0.3),
    ([1], 2, 0.2),
    ([0, 2], 3, 0.0),
)


Formula = Callable[..., Any]
WRONG_TARGETS: dict[str, Formula] = {  # verdict -> a function of the one-hot target h, V and e
    "the target is not smoothed: e has no effect": lambda h, V, e: h,
    "e is shared by the V - 1 wrong classes only: it is spread over all V": (
        lambda h, V, e: (1 - e) * h + (1 - h) * e / (V - 1)
    ),
    "the right class keeps 1 - e, without its share e / V": lambda h, V, e: (1 - e) * h + (1 - h) * e / V,
    "each class gets the whole of e, not its share e / V": lambda h, V, e: (1 - e) * h + e,
    "each wrong class gets the whole of e, not its share e / V": lambda h, V, e: (1 - e) * h + (1 - h) * e,
    "nothing is taken from the right class: it keeps a part 1 - e": lambda h, V, e: h + e / V,
    "the right class keeps 1, and the wrong ones get e / V": lambda h, V, e: h + (1 - h) * e / V,
    "e is taken from the right class and given to no class": lambda h, V, e: (1 - e) * h,
    "e and 1 - e are exchanged: the right class keeps 1 - e": lambda h, V, e: e * h + (1 - e) / V,
    "e is divided by the number of rows, not of classes": lambda h, V, e: (1 - e) * h + e / len(h),
    "e is divided by V - 1, and the right class has a share, too: then the row sums to more than 1": (
        lambda h, V, e: (1 - e) * h + e / (V - 1)
    ),
    "the right class gets its share e / V alone: it also keeps 1 - e": (
        lambda h, V, e: np.full_like(h, e / V)
    ),
    "e / V is taken from the right class, not e": lambda h, V, e: (1 - e / V) * h + e / V,
    "the target is transposed: rows are tokens, columns are classes": (
        lambda h, V, e: ((1 - e) * h + e / V).T
    ),
}


class Terms(NamedTuple):
    """The parts of a loss: logits, targets, e, smoothed target, probabilities and their logarithms."""

    x: np.ndarray
    targets: np.ndarray
    e: float
    q: np.ndarray
    p: np.ndarray
    log_p: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, targets: np.ndarray, e: float) -> Terms:
        log_p = F.log_softmax(mg.tensor(x), -1).numpy()
        return cls(x, targets, e, _smoothed(targets, x.shape[1], e), np.exp(log_p), log_p)

    def of_right_class(self, values: np.ndarray) -> np.ndarray:
        return values[np.arange(len(values)), self.targets]

    def entropy(self) -> np.ndarray:
        return -np.where(self.q > 0, self.q * np.log(self.q), 0).sum(-1)


WRONG_LOSSES: dict[str, Formula] = {  # verdict -> a function of Terms
    "the loss is the sum over the rows, not their mean": lambda t: -(t.q * t.log_p).sum(),
    "the loss is one number for each row, not their mean": lambda t: -(t.q * t.log_p).sum(-1),
    "the loss is one number for each class of each row: sum over the classes": lambda t: -t.q * t.log_p,
    "the sign is wrong: -log p is positive": lambda t: (t.q * t.log_p).sum(-1).mean(),
    "the loss is the mean over the classes, too: a row's loss is the sum over them": (
        lambda t: (-t.q * t.log_p).mean()
    ),
    "the loss has only the term of the right class": lambda t: -t.of_right_class(t.q * t.log_p).mean(),
    "the loss uses the right class alone, not the smoothed target": (
        lambda t: -t.of_right_class(t.log_p).mean()
    ),
    "the loss weights the probabilities, not their logarithms": lambda t: -(t.q * t.p).sum(-1).mean(),
    "log(sum exp(x)) is missing: the logits are not log-probabilities": (
        lambda t: -(t.q * t.x).sum(-1).mean()
    ),
    "the wrong classes count with e, not with their share e / V": (
        lambda t: -((1 - t.e) * t.of_right_class(t.log_p) + t.e * t.log_p.sum(-1)).mean()
    ),
    "the logarithm is taken of the sum, not of each probability": (
        lambda t: -np.log((t.q * t.p).sum(-1)).mean()
    ),
    "p and q are exchanged: the target weights the logarithms of p": (
        lambda t: -(t.p * np.log(np.maximum(t.q, 1e-300))).sum(-1).mean()
    ),
    "q is subtracted, as in the Kullback-Leibler divergence: the entropy of q is not part of the loss": (
        lambda t: (-(t.q * t.log_p).sum(-1) - t.entropy()).mean()
    ),
    "the sum goes over the rows and the mean over the classes: it is the other way": (
        lambda t: -(t.q * t.log_p).sum(0).mean()
    ),
}
WRONG_GRADIENTS: dict[str, Formula] = {  # verdict -> a loss with this gradient, of Terms and the logits
    "the gradient is that without smoothing: the one-hot target in place of q": (
        lambda t, x: F.cross_entropy(x, mg.tensor(t.targets))
    ),
    "the gradient is not divided by N: the loss is a mean over the rows": (
        lambda t, x: _loss(t, x) * len(t.x)
    ),
    "the gradient is divided by all numbers of the logits, not by their rows": (
        lambda t, x: _loss(t, x) / t.x.shape[1]
    ),
    "the gradient is divided by the classes, not by the rows": (
        lambda t, x: _loss(t, x) * len(t.x) / t.x.shape[1]
    ),
    "the sign of the gradient is wrong: the loss falls where x_j grows and p_j is below q_j": (
        lambda t, x: -_loss(t, x)
    ),
    "the gradient lacks p: log(sum exp(x)) depends on every x_j, too": lambda t, x: _linear(t, x, -t.q),
    "the gradient lacks q": lambda t, x: x.logsumexp(-1).mean(),
    "the gradient has log p in place of p": lambda t, x: _linear(t, x, t.log_p - t.q),
    "the gradient has the logits in place of p": lambda t, x: _linear(t, x, t.x - t.q),
    "the gradient has the term of the right class only": (
        lambda t, x: _linear(t, x, (t.p - t.q) * np.eye(t.x.shape[1])[t.targets])
    ),
    "the gradient of x_j has the term of log p_j only: every log p_k depends on x_j": (
        lambda t, x: _linear(t, x, t.q * (t.p - 1))
    ),
    "the gradient is that of p, -q / p: go on to the logits": lambda t, x: _linear(t, x, -t.q / t.p),
    "the gradient of log p_k is taken for that of p_k: a factor of p too many": (
        lambda t, x: _linear(t, x, t.p * (t.p - t.q))
    ),
}


def _smoothed(targets: np.ndarray, V: int, e: float) -> np.ndarray:
    return (1 - e) * np.eye(V)[targets] + e / V


def _loss(t: Terms, x: mg.Tensor) -> mg.Tensor:
    return F.cross_entropy(x, mg.tensor(t.targets), label_smoothing=t.e)


def _linear(t: Terms, x: mg.Tensor, gradient: np.ndarray) -> mg.Tensor:
    """A loss whose gradient with respect to the logits is `gradient` / N."""
    return (x * mg.tensor(gradient)).sum() / len(t.x)


def _of_one_hot(formula: Formula, targets: np.ndarray, V: int, e: float) -> Any:
    return formula(np.eye(V)[targets], V, e)


def _of_terms(formula: Formula, x: np.ndarray, targets: np.ndarray, e: float) -> Any:
    return formula(Terms.of(x, targets, e))


def _check_sums(call: str, found: Any, right: np.ndarray, advice: str) -> None:
    if isinstance(found, np.ndarray) and found.ndim == 2 and abs(found[0].sum() - 1) > 1e-6:
        compare(call, found, right, advice=f"{advice} Your first row sums to {found[0].sum():.6g}.")


def check(answer: ModuleType) -> None:
    targets = [(np.array(each), V, e) for each, V, e in CASES]
    check_cases(
        answer.smoothed_target,
        targets,
        _smoothed,
        {words: partial(_of_one_hot, wrong) for words, wrong in WRONG_TARGETS.items()},
        lambda targets, V, e: f"smoothed_target({targets.tolist()}, {V}, {e})",
        "Each row is a distribution: it sums to 1.",
        otherwise=_check_sums,
    )

    def smoothed_loss(x: np.ndarray, targets: np.ndarray, e: float) -> Any:
        return answer.smoothed_loss(mg.tensor(x), targets=targets, e=e)

    call = lambda x, targets, e: f"smoothed_loss(logits, {targets.tolist()}, {e})"
    cases = [(np.random.default_rng(0).normal(size=(len(each), V)), each, e) for each, V, e in targets]
    check_cases(
        smoothed_loss,
        cases,
        partial(_of_terms, lambda t: -(t.q * t.log_p).sum(-1).mean()),
        {words: partial(_of_terms, wrong) for words, wrong in WRONG_LOSSES.items()},
        call,
        "For each row the sum over the classes of -q log p, then the mean over the rows.",
    )
    for case in cases:
        x, each, e = case
        check_gradient(
            call(*case),
            partial(answer.smoothed_loss, targets=each, e=e),
            [mg.tensor(x, requires_grad=True)],
            {words: partial(wrong, Terms.of(*case)) for words, wrong in WRONG_GRADIENTS.items()},
        )
