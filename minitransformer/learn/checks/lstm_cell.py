"""One step of an LSTM."""

import itertools
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 15
REASONING = "derivation"
HINTS = (
    "The sum of both products has shape (N, 4 H): cut its last axis into four. And on which ways does a "
    "change of c' reach the loss?",
    "c' reaches the loss directly, with the gradient that is given, and through h' = o tanh(c'), with the "
    "gradient of h' times o (1 - tanh(c')^2). Add them. Then: how fast does c' change with c?",
    "i, f, g, o = np.split(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh, 4, axis=-1), and the two "
    "formulas. The gradient is (gradient_of_new_c + through_h) * forget, where through_h is "
    "gradient_of_new_h * output * (1 - tanh(new_c)^2).",
)
SIZES = ((3, 4, 2), (2, 3, 3), (1, 2, 5), (4, 1, 1))  # N, D, H
Arrays = tuple[np.ndarray, ...]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _cases() -> list[Arrays]:
    random = np.random.default_rng(0)
    shapes = lambda N, D, H: ((N, D), (N, H), (N, H), (4 * H, D), (4 * H, H), (4 * H,), (4 * H,))
    return [tuple(random.normal(size=shape) for shape in shapes(*size)) for size in SIZES]


def _blocks(
    case: Arrays, order: tuple[str, ...] = tuple("ifgo"), parts: str = "xbhd"
) -> dict[str, np.ndarray]:
    """i, f, g and o before their activations, as sums of the `parts` x W, b, h U, and the second bias d."""
    x, h, c, weight, recurrent, bias, other = case
    terms = {"x": x @ weight.T, "b": bias, "h": h @ recurrent.T, "d": other}
    gates = sum((terms[part] for part in parts), np.zeros((len(x), 4 * c.shape[1])))
    return dict(zip(order, np.split(gates, 4, -1), strict=True)) | {"c": c, "h": h}


def _interleaved(case: Arrays) -> dict[str, np.ndarray]:
    blocks = _blocks(case)
    gates = np.concatenate([blocks[name] for name in "ifgo"], -1)
    return {name: gates[:, k::4] for k, name in enumerate("ifgo")} | {"c": case[2], "h": case[1]}


def _reshaped(case: Arrays) -> dict[str, np.ndarray]:
    blocks = _blocks(case)
    gates = np.concatenate([blocks[name] for name in "ifgo"], -1).reshape(4, *case[2].shape)
    return dict(zip("ifgo", gates, strict=True)) | {"c": case[2], "h": case[1]}


def _new_c(b: dict[str, np.ndarray]) -> np.ndarray:
    return _sigmoid(b["f"]) * b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"])


def _new_h(b: dict[str, np.ndarray]) -> np.ndarray:
    return _sigmoid(b["o"]) * np.tanh(_new_c(b))


Formula = Callable[[dict[str, np.ndarray]], np.ndarray]
BY_PARTS = {
    "xhd": "bias_ih is missing",
    "xbh": "bias_hh is missing",
    "xh": "both biases are missing",
    "bhd": "x has no effect",
    "xbd": "h has no effect",
}
WRONG_C: dict[str, Formula] = {
    "new_h and new_c are exchanged: return h first": _new_h,
    "new_c is the candidate tanh(g) without the input gate": lambda b: (
        _sigmoid(b["f"]) * b["c"] + np.tanh(b["g"])
    ),
    "new_c adds the old c without the forget gate": lambda b: b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"]),
    "new_c has nothing of the old c": lambda b: _sigmoid(b["i"]) * np.tanh(b["g"]),
    "new_c is only what is left of the old c": lambda b: _sigmoid(b["f"]) * b["c"],
    "new_c forgets where it should keep: the old c is multiplied by f, not by 1 - f": (
        lambda b: (1 - _sigmoid(b["f"])) * b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
    "new_c takes up 1 - f, as a GRU does: here the gate i decides": (
        lambda b: _sigmoid(b["f"]) * b["c"] + (1 - _sigmoid(b["f"])) * np.tanh(b["g"])
    ),
    "new_c keeps 1 - i: here the gate f decides": (
        lambda b: (1 - _sigmoid(b["i"])) * b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
    "new_c keeps a part of the old h, not of the old c": (
        lambda b: _sigmoid(b["f"]) * b["h"] + _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
    "g has no tanh": lambda b: _sigmoid(b["f"]) * b["c"] + _sigmoid(b["i"]) * b["g"],
    "g has a sigmoid, not tanh: what is taken up may be negative": (
        lambda b: _sigmoid(b["f"]) * b["c"] + _sigmoid(b["i"]) * _sigmoid(b["g"])
    ),
    "f has no sigmoid": lambda b: b["f"] * b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"]),
    "i has no sigmoid": lambda b: _sigmoid(b["f"]) * b["c"] + b["i"] * np.tanh(b["g"]),
    "the gates have no sigmoid": lambda b: b["f"] * b["c"] + b["i"] * np.tanh(b["g"]),
    "neither the gates nor g have an activation": lambda b: b["f"] * b["c"] + b["i"] * b["g"],
    "the gates have tanh: a gate is between 0 and 1": (
        lambda b: np.tanh(b["f"]) * b["c"] + np.tanh(b["i"]) * np.tanh(b["g"])
    ),
    "sigmoid and tanh are exchanged": (
        lambda b: np.tanh(b["f"]) * b["c"] + np.tanh(b["i"]) * _sigmoid(b["g"])
    ),
    "the gates and g all have a softmax over the four blocks": (
        lambda b: _shares(b)[1] * b["c"] + _shares(b)[0] * _shares(b)[2]
    ),
    "new_c multiplies what it keeps and what it takes up: add them": (
        lambda b: _sigmoid(b["f"]) * b["c"] * _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
    "new_c is tanh of the memory: that belongs to new_h": lambda b: np.tanh(_new_c(b)),
    "the forget gate also multiplies what is taken up: only the old c": (
        lambda b: _sigmoid(b["f"]) * (b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"]))
    ),
    "the forget gate is added to the old c: multiply": (
        lambda b: _sigmoid(b["f"]) + b["c"] + _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
    "new_c takes up f and keeps 1 - f: here f keeps, and i takes up": (
        lambda b: (1 - _sigmoid(b["f"])) * b["c"] + _sigmoid(b["f"]) * np.tanh(b["g"])
    ),
    "new_c subtracts what it takes up": lambda b: (
        _sigmoid(b["f"]) * b["c"] - _sigmoid(b["i"]) * np.tanh(b["g"])
    ),
}
WRONG_H: dict[str, Formula] = {
    "new_h has no tanh: sigmoid(o) tanh(new_c)": lambda b: _sigmoid(b["o"]) * _new_c(b),
    "new_h has no output gate": lambda b: np.tanh(_new_c(b)),
    "new_h is new_c: the output gate and tanh are missing": _new_c,
    "new_h has a sigmoid of new_c, not tanh": lambda b: _sigmoid(b["o"]) * _sigmoid(_new_c(b)),
    "o has no sigmoid": lambda b: b["o"] * np.tanh(_new_c(b)),
    "o has tanh: a gate is between 0 and 1": lambda b: np.tanh(b["o"]) * np.tanh(_new_c(b)),
    "new_h is made of the old c": lambda b: _sigmoid(b["o"]) * np.tanh(b["c"]),
    "new_h is made of g, not of new_c": lambda b: _sigmoid(b["o"]) * np.tanh(b["g"]),
    "new_h has 1 - o in place of o": lambda b: (1 - _sigmoid(b["o"])) * np.tanh(_new_c(b)),
    "new_h has tanh around the product: only new_c has one": lambda b: np.tanh(_sigmoid(b["o"]) * _new_c(b)),
    "new_h adds the gate and the memory: multiply": lambda b: _sigmoid(b["o"]) + np.tanh(_new_c(b)),
    "new_h has two tanh around the memory": lambda b: _sigmoid(b["o"]) * np.tanh(np.tanh(_new_c(b))),
}
# verdict -> a function of the gradients of h' and c', the gates f and o, and c'
WRONG_GRADIENTS: dict[str, Callable[..., np.ndarray]] = {
    "lacks what comes through h'": lambda h, c, f, o, m: c * f,
    "has only what comes through h'": (
        lambda h, c, f, o, m: h * o * (1 - np.tanh(m) ** 2) * f
    ),
    "is that of new_c": (
        lambda h, c, f, o, m: c + h * o * (1 - np.tanh(m) ** 2)
    ),
    "has the forget gate in one of the two terms only": (
        lambda h, c, f, o, m: c * f + h * o * (1 - np.tanh(m) ** 2)
    ),
    "has the forget gate in the term through h' only": (
        lambda h, c, f, o, m: c + h * o * (1 - np.tanh(m) ** 2) * f
    ),
    "lacks the output gate": lambda h, c, f, o, m: (c + h * (1 - np.tanh(m) ** 2)) * f,
    "lacks the derivative of tanh": lambda h, c, f, o, m: (c + h * o) * f,
    "lacks the output gate and the derivative of tanh": lambda h, c, f, o, m: (c + h) * f,
    "has 1 - c'^2 for 1 - tanh(c')^2": lambda h, c, f, o, m: (c + h * o * (1 - m**2)) * f,
    "has 1 - tanh(c'), without the square": lambda h, c, f, o, m: (c + h * o * (1 - np.tanh(m))) * f,
    "has tanh(c') where its derivative belongs": lambda h, c, f, o, m: (c + h * o * np.tanh(m)) * f,
    "has tanh(c') (1 - tanh(c')), the form of a sigmoid's derivative": (
        lambda h, c, f, o, m: (c + h * o * np.tanh(m) * (1 - np.tanh(m))) * f
    ),
    "has 1 + tanh(c')^2": lambda h, c, f, o, m: (c + h * o * (1 + np.tanh(m) ** 2)) * f,
    "has f (1 - f), which leads to the gate's input": (
        lambda h, c, f, o, m: (c + h * o * (1 - np.tanh(m) ** 2)) * f * (1 - f)
    ),
    "has o (1 - o), which leads to the gate's input": (
        lambda h, c, f, o, m: (c + h * o * (1 - o) * (1 - np.tanh(m) ** 2)) * f
    ),
    "applies the sigmoid of the gates a second time": (
        lambda h, c, f, o, m: (c + h * _sigmoid(o) * (1 - np.tanh(m) ** 2)) * _sigmoid(f)
    ),
    "has 1 - f in place of f": lambda h, c, f, o, m: (c + h * o * (1 - np.tanh(m) ** 2)) * (1 - f),
    "multiplies the gradients of the two paths": (
        lambda h, c, f, o, m: c * h * o * (1 - np.tanh(m) ** 2) * f
    ),
    "has the output gate and tanh in both terms": (
        lambda h, c, f, o, m: (c + h) * o * (1 - np.tanh(m) ** 2) * f
    ),
    "has the gradients of new_h and new_c exchanged": (
        lambda h, c, f, o, m: (h + c * o * (1 - np.tanh(m) ** 2)) * f
    ),
    "is the forget gate alone": lambda h, c, f, o, m: f,
    "has the path through h' with a minus": lambda h, c, f, o, m: (c - h * o * (1 - np.tanh(m) ** 2)) * f,
    "has the derivative of tanh in the direct path, too": (
        lambda h, c, f, o, m: (c + h * o) * (1 - np.tanh(m) ** 2) * f
    ),
    "has the output gate on the direct path, and lacks the other": lambda h, c, f, o, m: c * o * f,
    "lacks the gradient of new_h in the path through h'": (
        lambda h, c, f, o, m: (c + o * (1 - np.tanh(m) ** 2)) * f
    ),
    "applies the sigmoid of the output gate a second time": (
        lambda h, c, f, o, m: (c + h * _sigmoid(o) * (1 - np.tanh(m) ** 2)) * f
    ),
    "is divided by the forget gate": lambda h, c, f, o, m: (c + h * o * (1 - np.tanh(m) ** 2)) / f,
}  # fmt: skip


def _shares(b: dict[str, np.ndarray]) -> np.ndarray:
    e = np.exp(np.stack([b[name] for name in "ifgo"]))
    return e / e.sum(0)


def _of_blocks(formula: Formula, *case: np.ndarray, **how: Any) -> np.ndarray:
    return formula(_blocks(case, **how))


def _wrong_blocks(formula: Formula) -> dict[str, Callable[..., np.ndarray]]:
    """Mistakes that apply the right formula to blocks that are split, ordered or summed in a wrong way."""
    mistakes: dict[str, Callable[..., np.ndarray]] = {
        words: partial(_of_blocks, formula, parts=parts) for parts, words in BY_PARTS.items()
    }
    for order in itertools.permutations("ifgo"):
        if order != tuple("ifgo"):
            words = f"the blocks are used as {', '.join(order)}: their order is i, f, g, o"
            mistakes[words] = partial(_of_blocks, formula, order=order)
    mistakes["the gates are cut with reshape(4, N, H), which mixes the rows: cut the last axis"] = (
        lambda *case: formula(_reshaped(case))
    )
    mistakes["every fourth column is taken for a gate: each gate is a block of H columns"] = lambda *case: (
        formula(_interleaved(case))
    )
    return mistakes


def check(answer: ModuleType) -> None:
    for part, name, right, wrong in ((1, "new_c", _new_c, WRONG_C), (0, "new_h", _new_h, WRONG_H)):
        check_cases(
            answer.lstm_cell,
            _cases(),
            partial(_of_blocks, right),
            {words: partial(_of_blocks, formula) for words, formula in wrong.items()} | _wrong_blocks(right),
            lambda x, h, *_, name=name: (
                f"lstm_cell with N = {len(x)}, D = {x.shape[1]}, H = {h.shape[1]}: {name}"
            ),
            "Print i, f, g and o with their shapes, (N, H), and compute one number of the formulas by hand.",
            by_luck=True,
            count=2,
            part=part,
        )
    random = np.random.default_rng(1)
    cases = []
    for N, _, H in SIZES:
        h, c, m = random.normal(size=(3, N, H))
        f, o = random.uniform(0.1, 0.9, (2, N, H))
        cases.append((h, c, f, o, m))
    check_cases(
        answer.gradient_of_c,
        cases,
        lambda h, c, f, o, m: (c + h * o * (1 - np.tanh(m) ** 2)) * f,
        {f"the gradient of c {words}": formula for words, formula in WRONG_GRADIENTS.items()},
        lambda h, *_: f"gradient_of_c with N = {len(h)}, H = {h.shape[1]}",
        "On which paths does a change of c reach the loss, and by what is it multiplied there?",
        by_luck=True,
    )
