"""Where each op made of pieces changes from one to the next: its kinks, jumps, ties and poles, by its name.

`tests/slow/parity/test_kinks.py` compares values and gradients there with PyTorch's, `test_kinks.py` of this
folder one way of computing with the others. An op whose source chooses between values (`where`, `sign`,
`maximum`, ...) must have a row in KINKS, or a reason in WITHOUT.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType
from typing import Any

import numpy as np

from minigrad.core.op import info_of
from minigrad.core.registry import registry

inf, nan = np.inf, np.nan
Call = tuple[tuple[Any, ...], dict[str, Any]]


def at(*args: Any, **settings: Any) -> Call:
    """A call: lists become arrays, of which those of floats are inputs; all else is passed unchanged."""
    array = lambda a: np.array(a) if type(a) is list else a
    return tuple(map(array, args)), {name: array(a) for name, a in settings.items()}


def pairs(xs: list[float], ys: list[float], **settings: Any) -> Call:
    """Every x with every y."""
    x, y = np.meshgrid(np.array(xs, np.float64), np.array(ys, np.float64), indexing="ij")
    return (x, y), settings


ENDS = [-inf, -1.0, -0.0, 0.0, 1.0, inf, nan]
HALVES = [-inf, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, inf, nan]
TIES = [[1.0, 3.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-0.0, 0.0, -1.0, 0.0], [inf, 1.0, inf, -inf]]
ZEROS = [[2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-0.0, 4.0, 1.0, -2.0]]
TINY = [7.0, -7.0, 1.0, -1.0, 0.001, 6.0, -6.0, 5.0, -5.0, 0.0, -0.0]
DIVISORS = [0.1, -0.1, 0.001, 0.0001, 3.0, -3.0, 1e300, -1e300]
POINTS = [[0.0, 0.0], [1.0, -2.0], [1.0, -2.0], [1.0, 3.0]]
ORDERS = [0, 0.5, 1, 2, 3, inf, -inf]

KINKS: dict[str, list[Call]] = {
    # ---------------------------------------------------------------- signs and rounding
    "absolute": [at(ENDS)],
    "sign": [at(ENDS), at([-2, 0, 3]), at([True, False])],
    "copysign": [pairs(ENDS, ENDS)],
    "angle": [at(ENDS)],
    "heaviside": [pairs(ENDS, [-0.0, 0.5])],
    "signbit": [at(ENDS)],
    "floor": [at(HALVES), at([-2, 0, 3])],
    "ceil": [at(HALVES), at([-2, 0, 3])],
    "trunc": [at(HALVES), at([-2, 0, 3])],
    "frac": [at(HALVES)],
    "round": [at(HALVES), at([0.05, 0.15, 0.25, -0.35, 1.25], decimals=1),
              at([5.0, 15.0, 25.0, -15.0], decimals=-1)],
    # ---------------------------------------------------------------- quotients
    "remainder": [pairs(TINY, DIVISORS), pairs([-5.0, 5.0], [inf, -inf]), at([-7, 7, 5, -5], [3, -3, -5, 2])],
    "fmod": [pairs(TINY, [3.0, -3.0, 1e300]), pairs([-5.0, 5.0], [inf, -inf]),
             at([-7, 7, 5, -5], [3, -3, -5, 2])],
    "floor_divide": [pairs(TINY, DIVISORS), pairs(ENDS, [inf, -inf, 2.0, 0.0, nan]),
                     at([-7, 7, 5, -5], [3, -3, -5, 2])],
    "div": [
        *[pairs(TINY, DIVISORS, rounding_mode=mode) for mode in (None, "trunc", "floor")],
        *[pairs(ENDS, [inf, -inf, 2.0, 0.0, nan], rounding_mode=mode) for mode in (None, "trunc", "floor")],
        *[at([-7, 7, 5, -5], [3, -3, -5, 2], rounding_mode=mode) for mode in (None, "trunc", "floor")],
    ],
    # ---------------------------------------------------------------- the larger and the smaller
    "maximum": [pairs(ENDS, ENDS)],
    "minimum": [pairs(ENDS, ENDS)],
    "fmax": [pairs(ENDS, ENDS)],
    "fmin": [pairs(ENDS, ENDS)],
    "clamp": [
        at(ENDS, -1.0, 1.0), at(ENDS, min=0.0), at(ENDS, max=0.0), at(ENDS, 1.0, -1.0), at(ENDS, nan, 1.0),
        at(ENDS, -1.0, nan), at(ENDS, [-1.0] * 7, [1.0] * 7), at(ENDS, [1.0] * 7, [-1.0] * 7),
        at(ENDS, min=[0.0] * 7), at(ENDS, max=[-0.0] * 7), at(ENDS, [-inf] * 7, [inf] * 7),
        at([-2, 0, 1, 3], 0, 1),
    ],
    "clamp_min": [at(ENDS, 0.0), at(ENDS, -0.0), at(ENDS, nan), at(ENDS, [1.0] * 7)],
    "clamp_max": [at(ENDS, 0.0), at(ENDS, -0.0), at(ENDS, nan), at(ENDS, [1.0] * 7)],
    "nan_to_num": [at(ENDS), at(ENDS, nan=1.0, posinf=2.0, neginf=3.0)],
    "where": [at([True, False, True], [nan, 1.0, inf], [0.0, nan, -0.0])],
    "isclose": [pairs(ENDS, [1.0 + 1e-5, 1.0 + 2e-5, 1e-8, -inf, inf, nan]),
                pairs([nan], [nan], equal_nan=True)],
    "lerp": [at([0.0, 1.0, -inf], [1.0, 3.0, 2.0], 0.5), at([0.0, 1.0], [1.0, 3.0], [0.5, 1.0])],
    # ---------------------------------------------------------------- poles and powers of 0
    "power": [
        pairs([-inf, -2.0, -0.0, 0.0, 1.0, inf, nan], [-inf, -2.0, -0.5, 0.0, 1.0, 2.0, 3.0, inf, nan]),
        *[at([-2.0, -0.0, 0.0, 1.0, nan], n) for n in (0, 1, 2, 3, 0.5, -1, -2)],
        at([0, 1, -1, 2], [0, 3, 3, 3]),
    ],
    "float_power": [pairs([-2.0, 0.0, 1.0, inf], [-1.0, 0.0, 0.5, 1.0, 2.0])],
    "ldexp": [at([1.0, -0.0, inf], [3.0, 0.0, -1.0])],
    "atan2": [pairs([-1.0, -0.0, 0.0, 1.0, inf], [-inf, -1.0, -0.0, 0.0, 1.0])],
    "hypot": [pairs([-1.0, 1.0, inf], [0.0, -0.0, 2.0, nan])],
    "sqrt": [at([-1.0, -0.0, 0.0, 1.0, inf, nan])],
    "logit": [at([-0.5, 0.0, 0.5, 1.0, 1.5, nan]), at([-0.5, 0.0, 0.1, 0.5, 0.9, 1.0, 1.5], eps=0.1)],
    "xlogy": [pairs([-1.0, -0.0, 0.0, 1.0, nan], [-1.0, 0.0, 1.0, inf, nan])],
    "xlog1py": [pairs([-1.0, -0.0, 0.0, 1.0, nan], [-2.0, -1.0, 0.0, inf, nan])],
    "entr": [at([-1.0, -0.0, 0.0, 1.0, inf, nan])],
    "log_ndtr": [at([-1.0 - 1e-9, -1.0, -1.0 + 1e-9, -40.0, 40.0])],
    "sinc": [at([-1.0, -0.0, 0.0, 1 / np.pi, 0.3183, 0.3184, 1.0])],
    # ---------------------------------------------------------------- activations
    "relu": [at(ENDS), at([-2, 0, 3])],
    "relu6": [at([*ENDS, 6.0, 6.5])],
    "leaky_relu": [at(ENDS), at(ENDS, 0.0), at(ENDS, -0.5)],
    "prelu": [at([[-1.0, -0.0], [0.0, 1.0]], [0.25]), at([[-1.0, -0.0], [0.0, nan]], [0.25, 0.5])],
    "hardtanh": [at([*ENDS, 2.0, -2.0]), at(ENDS, 0.0, 1.0), at(ENDS, 1.0, 1.0)],
    "hardsigmoid": [at([*ENDS[:-1], -3.0, 3.0, -4.0, 4.0])],
    "hardswish": [at([-4.0, -3.0, -0.0, 0.0, 1.5, 3.0, 4.0, inf])],
    "hardshrink": [at([*ENDS, 0.5, -0.5]), at(ENDS, 0.0)],
    "softshrink": [at([*ENDS, 0.5, -0.5]), at([-1.0, 1.0, 2.0, 0.5], 1.0)],
    "threshold": [at(ENDS, 0.0, 5.0), at(ENDS, 1.0, -1.0)],
    "elu": [at(ENDS), at(ENDS, 0.5)],
    "celu": [at(ENDS), at(ENDS, 0.5)],
    "selu": [at(ENDS)],
    "softplus": [at([*ENDS, 20.0, 20.5]), at([*ENDS[1:-2], 2.5, 5.0], beta=2.0, threshold=5.0)],
    "mish": [at([-1.0, -0.0, 0.0, 20.0, 20.5])],
    "softsign": [at([-1.0, -0.0, 0.0, 1.0])],
    # ---------------------------------------------------------------- reductions
    "amax": [at(TIES), at(TIES, 1), at(TIES, 0, True), at([1.0, nan, nan])],
    "amin": [at(TIES), at(TIES, 1), at(TIES, 0, True), at([1.0, nan, nan])],
    "aminmax": [at(TIES[:3]), at(TIES[:3], dim=1)],
    "max": [at(TIES), at(TIES, 1), at([1.0, nan, nan], 0)],
    "min": [at(TIES), at(TIES, 1), at([1.0, nan, nan], 0)],
    "argmax": [at(TIES), at(TIES, 1), at([1.0, nan, nan], 0)],
    "argmin": [at(TIES), at(TIES, 1), at([1.0, nan, nan], 0)],
    "nansum": [at([1.0, nan, inf]), at([nan, nan])],
    "nanmean": [at([1.0, nan, 3.0]), at([[nan, 1.0], [2.0, nan]], 1)],
    "prod": [at(ZEROS), at(ZEROS, 1), at([0.0, inf])],
    "cumprod": [at(ZEROS, 1)],
    "var": [at([2.0, 2.0, 2.0]), at([[2.0, 2.0], [1.0, 3.0]], 1)],
    "std": [at([[2.0, 3.0], [1.0, 3.0]], 1)],
    "cummax": [at(TIES, 1), at([1.0, nan, 3.0], 0)],
    "cummin": [at(TIES, 1), at([1.0, nan, 3.0], 0)],
    "logcumsumexp": [at([-1.0, 0.0, 0.0, -2.0], 0)],
    "logsumexp": [at([[0.0, 0.0], [-inf, 1.0]], 1)],
    "sort": [at([3.0, 1.0, 3.0, nan, -inf], stable=True, dim=0),
             at([0.0, -0.0, 0.0], stable=True, dim=0, descending=True)],
    "msort": [at([[3.0, 1.0], [2.0, nan], [1.0, 5.0]])],
    "topk": [at([3.0, 1.0, nan, 2.0], 2), at([3.0, 1.0, nan, 2.0], 2, largest=False)],
    "kthvalue": [at([3.0, 1.0, nan, 2.0], 4), at([3.0, 1.0, 2.0], 2)],
    "median": [at([3.0, 1.0, 2.0, 5.0]), at([1.0, nan, 2.0]), at([[1.0, 4.0, 2.0]], 1)],
    "nanmedian": [at([3.0, nan, 2.0, 5.0]), at([nan, nan]), at([[nan, 4.0, 2.0]], 1)],
    "mode": [at([[1.0, 2.0, 2.0, 1.0], [4.0, 4.0, 3.0, nan]], 1)],
    "quantile": [
        at([3.0, 1.0, 2.0], [0.0, 0.5, 1.0]), at([1.0, nan], 0.5),
        *[at([1.0, 2.0], 0.5, interpolation=way) for way in ("lower", "higher", "nearest", "midpoint")],
    ],
    "nanquantile": [at([3.0, nan, 2.0], [0.0, 0.5, 1.0])],
    "norm": [
        *[at([[3.0, -0.0, 4.0], [0.0, 0.0, 0.0]], p, 1) for p in ORDERS if p not in (0.5, -inf)],
        at([[3.0, -1.0, 4.0], [2.0, -2.0, 2.0]], 0.5, 1), at(TIES[:2], -inf, 1),
        *[at([[0.0, 3.0, -0.0, 2.0], [1.0, -3.0, 2.0, 4.0]], p, 1) for p in (-1, -2, -3, -0.5)],
        at([-3.0, 3.0], inf), at([0.0]),
    ],
    "matrix_norm": [at([[1.0, -1.0], [1.0, 2.0]], ord) for ord in (1, -1, inf, -inf)]
    + [at([[0.0, 0.0]], "fro")],
    "renorm": [at([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]], 2.0, 0, 1.0)],
    "dist": [at([1.0, 2.0], [1.0, 2.0], p) for p in ORDERS if p != 0.5],
    "cdist": [at(POINTS, POINTS[:2], p) for p in (0.0, 1.0, 2.0, 3.0, inf)],
    "pdist": [at(POINTS, p) for p in (0.0, 1.0, 2.0, 3.0, inf)],
    "pairwise_distance": [at(POINTS, POINTS, p, 0.0) for p in (1.0, 2.0, inf)],
    "cosine_similarity": [at([[1.0, 0.0], [3.0, 4.0]], [[1.0, 0.0], [-3.0, -4.0]])],
    "normalize": [at([[3.0, 4.0], [0.0, 0.0]]), at([[3.0, -4.0], [1.0, -1.0]], inf, 1)],
    "corrcoef": [at([[1.0, 2.0, 4.0], [-1.0, -2.0, -3.0]])],
    # ---------------------------------------------------------------- windows
    "max_pool1d": [at([[1.0, 1.0, 3.0, 3.0, nan, 2.0]], 2)],
    "max_pool2d": [at([[[1.0, 1.0, 2.0, 2.0], [1.0, 0.0, 2.0, 5.0]]], 2)],
    "max_pool3d": [at([[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]], 2)],
    "adaptive_max_pool1d": [at([[1.0, 1.0, 3.0, 3.0]], 2)],
    "adaptive_max_pool2d": [at([[[1.0, 1.0], [1.0, 1.0]]], 1)],
    "adaptive_max_pool3d": [at([[[[1.0, 1.0], [1.0, 1.0]]]], 1)],
    "interpolate": [
        at([[[1.0, 2.0, 3.0]]], size, mode=mode)
        for mode in ("nearest", "nearest-exact", "linear") for size in (1, 2, 3, 6)
    ],
}  # fmt: skip

# ---------------------------------------------------------------- what needs no row

BY_OTHERS = {  # the functions that users call, which have a row
    "limit": "clamp", "quotient": "div", "p_norm": "norm", "vector_norm": "norm", "linalg_norm": "norm",
    "middle": "median", "variance": "var", "deviation": "std", "extreme_places": "topk", "argsort": "sort",
    "largest_place": "max_pool1d",
    "var_mean": "var", "std_mean": "std", "upsample": "interpolate", "upsample_nearest": "interpolate",
    "upsample_bilinear": "interpolate", "allclose": "isclose", "cond": "matrix_norm",
}  # fmt: skip
WITHOUT = {
    "softmax": "the largest changes nothing but the range of exp",
    "log_softmax": "the largest changes nothing but the range of exp",
    "softmin": "the softmax of -x",
    "isnan": "a question",
    "isinf": "a question",
    "histc": "a count",
    "bincount": "a count",
    "einsum": "looks at the letters of its equation",
    "mvlgamma": "refuses numbers that are too small",
    "matrix_power": "chooses by the exponent, an integer",
    "cov": "clamps the divisor, which has no gradient",
    "matrix_exp": "the largest chooses how many terms are needed",
    "det": "`where` keeps a singular matrix from being inverted",
    "logdet": "`where` chooses NaN where the determinant is negative",
}  # fmt: skip
FAMILIES = {"elementwise", "activation", "reduction", "matrix", "normalization", "convolution"}
CHOICES = frozenset({
    "where", "sign", "absolute", "abs", "maximum", "minimum", "fmax", "fmin", "clamp", "clip",
    "floor", "ceil", "trunc", "round", "masked_fill", "max", "min", "amax", "amin", "argmax", "argmin",
    "sort", "argsort", "partition", "copysign", "floor_divide", "remainder", "fmod", "isnan", "isinf",
    "accumulate", "isclose",
})  # fmt: skip


def pieces() -> set[str]:
    """The ops whose source chooses between values: by a name of CHOICES, or by another such op."""
    return {
        name
        for name, info in registry.items()
        if info.family in FAMILIES
        and info.source.__module__.startswith("minigrad.")
        and _chooses(info.source, set())
    }


def _chooses(function: Any, seen: set[Any]) -> bool:
    function = inspect.unwrap(function)
    if function in seen or not isinstance(function, FunctionType):
        return False
    seen.add(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(_is_choice(node, function, seen) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _is_choice(node: ast.Call, function: FunctionType, seen: set[Any]) -> bool:
    """Whether a call chooses: of a method, of an op, or of a function beside this one."""
    if isinstance(node.func, ast.Attribute):
        of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"  # places and shapes
        return node.func.attr in CHOICES and not of_numpy
    called = function.__globals__.get(getattr(node.func, "id", ""))
    info = info_of(called)
    if info is not None:
        return info.name in CHOICES or (info.family in FAMILIES and _chooses(info.source, set(seen)))
    return getattr(called, "__module__", "") == function.__module__ and _chooses(called, seen)
