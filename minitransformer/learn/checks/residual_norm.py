"""Add & norm: a post-norm and a pre-norm sublayer, and their gradients."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 10
REASONING = "derivation"
HINTS = (
    "Both functions are one line, straight from the formula. For the way back, begin at the output: in "
    "post-norm the last step is the norm, in pre-norm it is the sum.",
    "A sum passes its gradient on to both terms, unchanged. So in pre-norm, x gets g itself, and what comes "
    "back through f and then through the norm. In post-norm, g goes through the norm first.",
    "post: u = norm_backward(g), then u + f_backward(u). pre: g + norm_backward(f_backward(g)).",
)
FORWARD = "post-norm: norm(x + f(x)); pre-norm: x + f(norm(x))."
BACKWARD = (
    "Go from the output to x: what was done last comes first. Where x is used twice, two gradients add up."
)
Map = Callable[[np.ndarray], np.ndarray]


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    forward, backward = [], []
    for shape in ((2, 4), (3, 3), (2, 2, 5), (4,)):
        weight, of_f, of_norm = (random.normal(size=(shape[-1], shape[-1])) for _ in range(3))
        forward.append((random.normal(size=shape), _sublayer(weight), _norm))
        backward.append((random.normal(size=shape), _product(of_f), _product(of_norm)))
    rights: dict[str, Callable[..., Any]] = {"post_norm": _post, "pre_norm": _pre}
    for name, right in rights.items():
        call = lambda x, f, norm, name=name: f"{name}(x, f, norm) for x of shape {x.shape}"
        mistakes = POST if right is _post else PRE
        check_cases(getattr(answer, name), forward, right, mistakes, call, FORWARD)
    rights = {"post_norm_gradient": _post_back, "pre_norm_gradient": _pre_back}
    for name, right in rights.items():
        call = lambda g, f, norm, name=name: f"{name}(g, ...) for g of shape {g.shape}"
        mistakes = POST_BACK if right is _post_back else PRE_BACK
        check_cases(getattr(answer, name), backward, right, mistakes, call, BACKWARD)


def _sublayer(weight: np.ndarray) -> Map:
    return lambda x: np.tanh(x @ weight) + 0.1


def _norm(x: np.ndarray) -> np.ndarray:
    """Layer norm with a weight and a bias, so that applying it twice differs from applying it once."""
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * np.arange(1, x.shape[-1] + 1) + 0.3
    )


def _product(weight: np.ndarray) -> Map:
    return lambda g: g @ weight


def _post(x: np.ndarray, f: Map, norm: Map) -> np.ndarray:
    return norm(x + f(x))


def _pre(x: np.ndarray, f: Map, norm: Map) -> np.ndarray:
    return x + f(norm(x))


def _post_back(g: np.ndarray, f: Map, norm: Map) -> np.ndarray:
    return norm(g) + f(norm(g))


def _pre_back(g: np.ndarray, f: Map, norm: Map) -> np.ndarray:
    return g + norm(f(g))


BOTH: dict[str, Callable[..., Any]] = {
    "there is neither residual nor norm: this is f(x)": lambda x, f, norm: f(x),
    "there is no norm: this is x + f(x)": lambda x, f, norm: x + f(x),
    "there is no residual: this is norm(f(x))": lambda x, f, norm: norm(f(x)),
    "there is no residual: this is f(norm(x))": lambda x, f, norm: f(norm(x)),
    "the norm is around f(x) alone: this is x + norm(f(x))": lambda x, f, norm: x + norm(f(x)),
    "the residual is norm(x): this is norm(x) + f(x)": lambda x, f, norm: norm(x) + f(x),
    "both terms are normalized: this is norm(x) + norm(f(x))": lambda x, f, norm: norm(x) + norm(f(x)),
    "the norm is there twice: this is norm(x + f(norm(x)))": lambda x, f, norm: norm(x + f(norm(x))),
    "this is norm(norm(x) + f(x))": lambda x, f, norm: norm(norm(x) + f(x)),
    "this is f(x + norm(x))": lambda x, f, norm: f(x + norm(x)),
    "f is left out: this is norm(x + x)": lambda x, f, norm: norm(x + x),
    "there is a norm around f(x), too: this is norm(x + norm(f(x)))": lambda x, f, norm: norm(x + norm(f(x))),
    "x is normalized before, too: this is norm(norm(x) + f(norm(x)))": (
        lambda x, f, norm: norm(norm(x) + f(norm(x)))
    ),
    "x itself is missing: this is f(x) + f(norm(x))": lambda x, f, norm: f(x) + f(norm(x)),
    "half of what it should be: a mean instead of a sum": lambda x, f, norm: (x + f(norm(x))) / 2,
    "this is norm(x), without f": lambda x, f, norm: norm(x),
    "x and f(x) are multiplied: they are added": lambda x, f, norm: norm(x * f(x)),
    "x and f(norm(x)) are multiplied: they are added": lambda x, f, norm: x * f(norm(x)),
    "f(x) is subtracted: it is added": lambda x, f, norm: norm(x - f(x)),
    "f(norm(x)) is subtracted: it is added": lambda x, f, norm: x - f(norm(x)),
    "the difference is the wrong way round, and it is a sum": lambda x, f, norm: norm(f(x) - x),
    "x comes back as it was": lambda x, f, norm: x,
}
POST = {"this is pre-norm, x + f(norm(x))": _pre} | BOTH
POST["the residual is norm(x), and f gets norm(x): this is norm(x) + f(norm(x))"] = lambda x, f, norm: (
    norm(x) + f(norm(x))
)
PRE = {"this is post-norm, norm(x + f(x))": _post} | BOTH
PRE["the residual is norm(x): it is x itself, which the norm does not touch"] = lambda x, f, norm: (
    norm(x) + f(norm(x))
)

BACK: dict[str, Callable[..., Any]] = {
    "only the way of the residual is there: f's is missing": lambda g, f, norm: norm(g),
    "this is g: f and the norm are left out": lambda g, f, norm: g,
    "there is no norm on the way back: this is g + f_backward(g)": lambda g, f, norm: g + f(g),
    "the norm is left out, and so is the residual: this is f_backward(g)": lambda g, f, norm: f(g),
    "this is norm_backward(g) + f_backward(g): f gets g, and the norm has no part of what f brings": (
        lambda g, f, norm: norm(g) + f(g)
    ),
    "this is g + norm_backward(g), without f": lambda g, f, norm: g + norm(g),
    "the two ways are multiplied: they add up": lambda g, f, norm: norm(g) * f(norm(g)),
    "g and what comes through f are multiplied: two ways add up": lambda g, f, norm: g * norm(f(g)),
    "this is g + f_backward(g) + norm_backward(g): f and the norm are one behind the other": (
        lambda g, f, norm: g + f(g) + norm(g)
    ),
    "the sign of f's part is wrong: a sum passes g on to both terms": lambda g, f, norm: norm(g) - f(norm(g)),
    "the sign of the part through f is wrong: a sum passes g on to both terms": (
        lambda g, f, norm: g - norm(f(g))
    ),
    "each way has half of the gradient: a sum passes all of it to both terms": (
        lambda g, f, norm: (norm(g) + f(norm(g))) / 2
    ),
    "both ways have half of g: a sum passes all of it to both terms": lambda g, f, norm: (g + norm(f(g))) / 2,
    "f is left out: this is twice what the residual brings": lambda g, f, norm: 2 * norm(g),
    "f is left out: this is 2 g": lambda g, f, norm: 2 * g,
    "norm_backward(g) and f's part are multiplied; a sum passes g on to both terms, and they add up": (
        lambda g, f, norm: norm(g) * (1 + f(norm(g)))
    ),
    "g is multiplied by 1 and what comes through f: that is already a gradient, so add it to g": (
        lambda g, f, norm: g * (1 + norm(f(g)))
    ),
    "the residual adds 1: it must add g, unchanged": lambda g, f, norm: 1 + norm(f(g)),
    "the residual adds 1: it must add g, as it comes out of the norm": lambda g, f, norm: 1 + f(norm(g)),
    "the residual is missing, f is there twice: f_backward(f_backward(g))": lambda g, f, norm: f(f(g)),
}
POST_BACK: dict[str, Callable[..., Any]] = {
    "this is pre-norm's gradient, g + norm_backward(f_backward(g))": _pre_back,
    "the residual is missing: this is f_backward(norm_backward(g)); x is also a term of the sum": (
        lambda g, f, norm: f(norm(g))
    ),
    "the order is wrong: in norm(x + f(x)) the norm comes last, so it is first on the way back": (
        lambda g, f, norm: norm(f(g))
    ),
    "f's part comes through the norm at the end: in norm(x + f(x)) the norm is first on the way back": (
        lambda g, f, norm: norm(g) + norm(f(g))
    ),
    "the residual's way goes around the norm: in norm(x + f(x)) both ways lead through it": (
        lambda g, f, norm: g + f(norm(g))
    ),
} | BACK
PRE_BACK: dict[str, Callable[..., Any]] = {
    "this is post-norm's gradient: in x + f(norm(x)) nothing stands on the residual's way": _post_back,
    "the residual is missing: this is norm_backward(f_backward(g)); x, as a term of the sum, gets g, too": (
        lambda g, f, norm: norm(f(g))
    ),
    "the order is wrong: forward, the norm comes before f, so on the way back f is first": (
        lambda g, f, norm: g + f(norm(g))
    ),
    "the residual's way leads through the norm: in x + f(norm(x)) x itself is a term of the sum": (
        lambda g, f, norm: norm(g) + norm(f(g))
    ),
    "the order is wrong, and the residual is missing: this is f_backward(norm_backward(g))": (
        lambda g, f, norm: f(norm(g))
    ),
} | BACK
