"""Each op's LaTeX is its gradient: rule and formula on the same numbers."""

import inspect
import math
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.registry import registry
from minigrad.ops.axes import axes_of
from minigrad.ops.sample_calls import as_function, floating, samples_of
from tests.leaves import for_each
from tests.ops.latex import Identity, evaluate

UNDOES = "names the op that takes the gradient back to where the value came from"
SUMS_PLACES = "says in words which places are added up"
STEPS = "is a recurrence over steps"
CHANNELS = "leaves out stride, padding and the sum over channels"
NOT_EVALUATED = {
    **dict.fromkeys(("view_as_shape", "permute_axes", "joined", "split", "slices", "diagonal"), UNDOES),
    **dict.fromkeys(("getitem", "scattered", "replaced", "scatter_add", "reversed_along"), UNDOES),
    **dict.fromkeys(("gather", "embedding", "sliding_windows", "overlap_add", "extreme"), SUMS_PLACES),
    "strided": SUMS_PLACES,
    **dict.fromkeys(("convolution", "convolution_input", "convolution_weight"), CHANNELS),
    **dict.fromkeys(("rnn", "lstm", "gru"), STEPS),
}  # fmt: skip

# what a formula leaves out: it holds for the samples of which this is true
HOLDS = {
    "gelu": lambda a: a["approximate"] == "none",
    "div": lambda a: a["rounding_mode"] is None,
    "dropout": lambda a: a["p"] < 1,
    "diff": lambda a: a["n"] == 1 and a["prepend"] is None,
    "matmul": lambda a: min(a["x"].ndim, a["y"].ndim) > 1,  # a vector is a row, or a column
    "linear": lambda a: a["x"].ndim == 2,
    "quantized_linear": lambda a: a["x"].ndim == 2,
    "solve": lambda a: a["left"] and a["b"].ndim == a["a"].ndim,
    "cholesky": lambda a: not a["upper"],
    "det": lambda a: np.linalg.matrix_rank(a["x"]).min() == a["x"].shape[-1],
    "transpose": lambda a: a["x"].ndim == 2,
    "scaled_dot_product_attention": lambda a: (
        (a["mask"] is None or a["mask"].dtype == float) and not a["dropout_p"] and a["k"].shape[-2] > 0
    ),
    "nll_loss": lambda a: a["weight"] is None and a["input"].ndim == 2,
    "binary_cross_entropy": lambda a: a["weight"] is None,
    "binary_cross_entropy_with_logits": lambda a: a["weight"] is None,
    "mse_loss": lambda a: a["weight"] is None,
    **dict.fromkeys(("p_norm", "norm"), lambda a: a["p"] in (2, 3, 3.5, -0.5, "fro")),
}

ROWS = lambda a: tuple(range(-len(a["normalized_shape"]), 0))
NORMALIZED = {"layer_norm", "rms_norm"}


def eigen(a):
    values, vectors = np.linalg.eigh(a["x"])
    gaps = values[..., None, :] - values[..., :, None]
    gaps[gaps == 0] = np.inf
    return {"V": vectors, "E": gaps, r"g_\lambda": a["g"][0], "g_V": a["g"][1]}


def singular(a):
    u, _, v = np.linalg.svd(a["a"], full_matrices=False)
    return {"U": u, "V": v.swapaxes(-1, -2)}


def scores(a):
    """The scale, and what is added to the scores: the mask, and -inf for the future."""
    shape = a["q"].shape[-2], a["k"].shape[-2]
    future = np.where(np.tri(*shape, dtype=bool) | (not a["is_causal"]), 0.0, -np.inf)
    return {"s": a["scale"], "mask": future if a["mask"] is None else a["mask"] + future}


def smoothed(a):
    """The target's probabilities, and how many rows count (1 where losses are not averaged)."""
    target = a["target"]
    v = a["logits"].shape[1]
    smoothing = a["label_smoothing"]
    valid = target != a["ignore_index"]
    q = np.eye(v)[np.where(valid, target, 0)] * (1 - smoothing) + smoothing / v
    g = a["g"] if a["reduction"] == "none" else np.broadcast_to(a["g"], target.shape)
    return {"q": q, "n": valid.sum() if a["reduction"] == "mean" else 1, "g": (g * valid)[:, None]}


def likelihoods(a):
    target = a["target"]
    valid = target != a["ignore_index"]
    n = valid.sum() if a["reduction"] == "mean" else 1
    g = np.broadcast_to(a["g"], target.shape) * valid
    return {"n": n, "g": g[:, None], "target": np.where(valid, target, 0)}


def crossed(a, u, v):
    shape = np.broadcast_shapes(a["x"].shape, a["y"].shape)
    dim = a["dim"] if a["dim"] is not None else a["x"].shape.index(3)
    return np.cross(np.broadcast_to(u, shape), np.broadcast_to(v, shape), axis=dim)


def with_axes(a):
    """The vectors with as many axes, the result with the one along which it was taken."""
    vectors = (a["x1"], a["x2"])
    most = max(v.ndim for v in vectors)
    x1, x2 = (v.reshape((1,) * (most - v.ndim) + v.shape) for v in vectors)
    g, y = (np.expand_dims(a[name], a["dim"] % most) for name in "gy")
    return {"x_1": x1, "x_2": x2, "g": g, "y": y}


def averaged(a):
    return {"n": a["input"].size if a["reduction"] == "mean" else 1}


# what the letters of a formula mean, where they are not the op's operands, settings and result
MEANING = {
    "inv": lambda a: {"X": a["x"]},
    **dict.fromkeys(("det", "logdet"), lambda a: {"X": a["x"], "g": a["g"][..., None, None]}),
    **dict.fromkeys(("sign_and_log", "slogdet"), lambda a: {"X": a["x"], "g_2": a["g"][1][..., None, None]}),
    "cosine_similarity": with_axes,
    **dict.fromkeys(("solve", "solve_matrices"), lambda a: {"A": a["a"], "X": a["y"]}),
    **dict.fromkeys(
        ("pseudoinverse", "pinv", "pinverse"), lambda a: {"X": a["x"], "Y": a["y"], "I": Identity()}
    ),
    **dict.fromkeys(("cholesky", "cholesky_factor"), lambda a: {"L": a["y"]}),
    "eigen_factors": eigen,
    "eigvalsh": lambda a: {"V": np.linalg.eigh(a["a"])[1]},
    "svdvals": singular,
    "linear": lambda a: {"W": a["weight"]},
    "quantized_linear": lambda a: {"Q": a["weight"], "s": a["scale"]},
    "diff": lambda a: {"g": np.pad(a["g"], [(0, i == a["dim"]) for i in range(a["g"].ndim)])},
    "var": lambda a: {"correction": int(a["unbiased"]) if a["correction"] is None else a["correction"]},
    "norm": lambda a: {"p": 2 if a["p"] == "fro" else a["p"]},
    "trace": lambda a: {"I": np.eye(*a["x"].shape)},
    "scaled_dot_product_attention": scores,
    "dropout": lambda a: {"kept": a["y"] != 0},
    "glu": lambda a: dict(zip("ab", np.split(a["x"], 2, a["dim"]), strict=True)),
    "cross_entropy": smoothed,
    "nll_loss": likelihoods,
    **dict.fromkeys(
        ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss"), averaged
    ),
    "soft_margin_loss": averaged,
    **dict.fromkeys(NORMALIZED, lambda a: {"weight": 1.0 if a["weight"] is None else a["weight"]}),
    **dict.fromkeys(("limit", "clamp"), lambda a: {k: v for k, v in zip(
        ("low", "high", "min", "max"), (-math.inf, math.inf) * 2, strict=True) if a.get(k) is None}),
}  # fmt: skip
COLUMNS = {"mv", "dot", "outer", "addmv", "addr"}  # products of vectors, which are columns
FUNCTIONS_OF = {
    "tril": lambda a: {"tril": lambda g: np.tril(g, a["diagonal"])},
    "triu": lambda a: {"triu": lambda g: np.triu(g, a["diagonal"])},
    "nll_loss": lambda a: {"onehot": lambda t: np.eye(a["input"].shape[1])[t]},
    "cross": lambda a: {"cross": lambda u, v: crossed(a, u, v)},
}
PLAIN = {"cross", "cosine_similarity"}  # in the matrix family, but element by element


def arguments(record, sample):
    """The sample's arguments by name, those that nobody gave as well."""
    bound = inspect.signature(record.source).bind(*sample.args, **sample.kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


FORMULAS = {
    key: record
    for key, record in sorted(registry.items())
    if record.source.__module__.startswith("minigrad.") and any(record.latex) and key not in NOT_EVALUATED
}
CASES = [
    (record, sample)
    for key, record in FORMULAS.items()
    for number, sample in enumerate(samples_of(record))
    if key not in HOLDS or HOLDS[key](arguments(record, sample))
]


def expanded(array, shape, axes):
    """What a reduction took from `shape`, with its axes again, repeated."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return np.broadcast_to(array.reshape(kept), shape)


def summed_to(array, shape):
    """Added up over the axes along which an operand of `shape` was broadcast."""
    array = np.asarray(array)
    array = np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))
    lead = array.ndim - len(shape)
    repeated = tuple(i for i, n in enumerate(array.shape) if i < lead or shape[i - lead] != n)
    return array.sum(repeated, keepdims=True).reshape(shape)


def by_rows(latex, env, axes):
    """A formula with indices: of each row along the axes, element by element."""
    shape = env["x"].shape
    last = tuple(range(-len(axes), 0))
    rows = {
        name: np.moveaxis(value, axes, last).reshape(-1, math.prod(shape[i] for i in axes))
        for name, value in env.items()
        if isinstance(value, np.ndarray) and value.shape == shape
    }
    found = np.zeros_like(rows["x"])
    for r, row in enumerate(found):
        own = env | {name: value[r] for name, value in rows.items()}
        for i in range(len(row)):
            value = np.asarray(evaluate(latex, own | {"i": i}))
            row[i] = value[i] if value.ndim else value
    moved = [shape[i] for i in range(len(shape)) if i not in axes] + [shape[i] for i in axes]
    return np.moveaxis(found.reshape(moved), last, axes)


def settings_of(record, sample, outs, gs):
    """(What the letters of a formula mean, the axes along which the op computes.)"""
    a = arguments(record, sample)
    one = lambda arrays: arrays[0] if len(arrays) == 1 else arrays
    ys = [y.numpy() for y in outs]
    gs = [g.numpy() for g in gs]
    a = {"y": one(ys), **a, "g": one(gs)}
    x = a.get("x")
    axes = None if record.name == "middle" else (-1,)
    if record.name in NORMALIZED:
        axes = ROWS(a)
    elif {"dim", "dims"} & a.keys() and record.family != "shape":
        first = next(v for v in a.values() if isinstance(v, np.ndarray) and v is not a["y"])
        axes = axes_of(a.get("dim", a.get("dims")), first.ndim)
    if isinstance(x, np.ndarray) and record.family == "reduction" and record.name != "diff":
        axes = axes_of(axes, x.ndim)
        if a["g"].shape != x.shape:
            a["g"], a["y"] = (expanded(a[name], x.shape, axes) for name in "gy")
        a.setdefault("n", math.prod(x.shape[i] for i in axes))
        a["number of ties"] = (x == a["y"]).sum(axis=axes, keepdims=True)
    if record.name in COLUMNS:
        a |= {name: v[:, None] for name, v in a.items() if isinstance(v, np.ndarray) and v.ndim == 1}
    a |= {f"{name[0]}_{name[1]}": v for name, v in a.items() if name in ("x1", "x2")}
    return a | MEANING.get(record.key, dict)(a) if record.key in MEANING else a, axes


@for_each(CASES)
def test_formulas_match_the_gradients(record, sample):
    function, inputs = as_function(record, sample)
    outs = floating(function(*inputs))
    rng = np.random.default_rng(0)
    gs = [mg.tensor(np.asarray(rng.normal(size=y.shape))) for y in outs]
    found = iter(mg.autograd.grad(outs, inputs, gs, allow_unused=True))
    env, axes = settings_of(record, sample, outs, gs)
    matrices = record.family in ("matrix", "attention") and record.name not in PLAIN
    functions = FUNCTIONS_OF.get(record.key, lambda a: {})(env)
    for value, latex in zip(arguments(record, sample).values(), record.latex, strict=False):
        if not isinstance(value, np.ndarray) or value.dtype != float:
            continue
        gradient = next(found)
        if latex is None:
            continue
        if re.search(r"_\{?[ijk](?![a-z=])", latex):
            formula = by_rows(latex, env, axes_of(axes, env["x"].ndim))
        else:
            others = [other for other in record.latex if other and other != latex]
            formula = evaluate(latex, env, functions, matrices, axes, others)
        if isinstance(formula, list):
            formula = np.concatenate(formula, env["dim"])
        if record.name in COLUMNS and value.ndim < 2 and formula.shape[1:] == (1,):
            formula = formula[:, 0]
        expected = np.zeros(value.shape) if gradient is None else gradient.numpy()
        np.testing.assert_allclose(summed_to(formula, value.shape), expected, rtol=1e-9, atol=1e-9)


def test_every_formula_exception_is_needed():
    assert NOT_EVALUATED.keys() <= {key for key, record in registry.items() if any(record.latex)}
    assert HOLDS.keys() | MEANING.keys() <= registry.keys() - NOT_EVALUATED.keys()
    for key, holds in HOLDS.items():
        held = [holds(arguments(registry[key], sample)) for sample in samples_of(registry[key])]
        assert True in held, key
        assert False in held, key


@for_each(FORMULAS)
def test_every_formula_is_checked_on_a_sample(key):
    given = [list(arguments(*case).values()) for case in CASES if case[0].key == key]
    for i, latex in enumerate(FORMULAS[key].latex):
        assert latex is None or any(isinstance(a[i], np.ndarray) and a[i].dtype == float for a in given)


def test_a_wrong_formula_is_found():
    x = np.array([-1.0, 2.0])
    np.testing.assert_array_equal(evaluate(r"\frac{g}{2}\,[x > 0] - x^2 e^0", {"x": x, "g": 4.0}), [-1, -2])
    assert not np.allclose(evaluate(r"g\,e^{2x}", {"x": x, "g": 1.0}), np.exp(x))
    for latex in (r"g\,?", r"g x)", r"\operatorname{g", r"h"):
        with pytest.raises((AssertionError, KeyError)):
            evaluate(latex, {"x": x, "g": 1.0})
