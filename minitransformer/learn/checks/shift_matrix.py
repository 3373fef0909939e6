"""The matrix that moves a position."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases, with_pairs

LESSON = 7
REASONING = "derivation"
HINTS = (
    "sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b. Take a = w pos and "
    "b = w k.",
    "sin(w (pos + k)) = cos(w k) sin(w pos) + sin(w k) cos(w pos): that is the first row of the square. The "
    "second row begins with what multiplies sin(w pos) in cos(w (pos + k)).",
    "With c = cos(w k) and s = sin(w k), matrix[2i : 2i + 2, 2i : 2i + 2] = [[c, s], [-s, c]].",
)
ADVICE = "Row 0 of a square gives sin(w (pos + k)), row 1 cos(w (pos + k)), both from sin(w pos), cos(w pos)."


def check(answer: ModuleType) -> None:
    cases = [(3, 6), (1, 2), (5, 8), (-2, 4), (0, 6), (40, 10), (1, 64)]
    call = lambda k, d_model: f"shift_matrix({k}, {d_model})"
    check_cases(answer.shift_matrix, cases, _matrix, with_pairs(_matrix, STEPS), call, ADVICE)


def _frequency(i: int, k: int, d_model: int, exponent: str) -> float:
    """Return the frequency of pair i, computed with `exponent`."""
    power = {
        "2i / d": 2 * i / d_model,
        "i / d": i / d_model,
        "4i / d": 4 * i / d_model,
        "2i": 2.0 * i,
        "0": 0,
        "(2i + 1) / d": (2 * i + 1) / d_model,
        "times": -2 * i / d_model,
        "k": 2 * i * k / d_model,
    }
    if exponent == "precedence":
        return float(d_model / 10000.0 ** (2 * i))
    if exponent == "from the left":
        return float(10000.0 ** (-2 * i) / d_model)
    return float(10000.0 ** -power[exponent])


def _angle(w: float, k: int, by: str) -> float:
    return {
        "k": w * k,
        "1": w,
        "k + 1": w * (k + 1),
        "|k|": w * abs(k),
        "degrees": np.deg2rad(w * k),
    }[by]


SQUARES: dict[str, Callable[[float, float], list[list[float]]]] = {  # name -> square of cos(w k) and sin(w k)
    "c s -s c": lambda c, s: [[c, s], [-s, c]],
    "c -s s c": lambda c, s: [[c, -s], [s, c]],
    "c s s c": lambda c, s: [[c, s], [s, c]],
    "c -s -s c": lambda c, s: [[c, -s], [-s, c]],
    "c s s -c": lambda c, s: [[c, s], [s, -c]],
    "s c c -s": lambda c, s: [[s, c], [c, -s]],
    "s c -c s": lambda c, s: [[s, c], [-c, s]],
    "c -s c s": lambda c, s: [[c, -s], [c, s]],
    "s 0 0 c": lambda c, s: [[s, 0], [0, c]],
    "c 0 0 c": lambda c, s: [[c, 0], [0, c]],
    "-": lambda c, s: [[-c, -s], [s, -c]],
    "s c -s c": lambda c, s: [[s, c], [-s, c]],
    "c s 0 0": lambda c, s: [[c, s], [0, 0]],
    "0 0 -s c": lambda c, s: [[0, 0], [-s, c]],
}


def _matrix(
    k: int,
    d_model: int,
    *,
    exponent: str = "2i / d",
    by: str = "k",
    square: str = "c s -s c",
    place: str = "pairs",
) -> np.ndarray:
    """The right matrix or, with other arguments, a matrix with mistakes."""
    matrix = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = _angle(_frequency(i, k, d_model, exponent), k, by)
        c, s = np.cos(angle), np.sin(angle)
        block = [[k * c, k * s], [-k * s, k * c]] if square == "times k" else SQUARES[square](c, s)
        columns = [i, i + d_model // 2] if place == "halves" else [2 * i, 2 * i + 1]
        if place == "overlapping":
            columns = [i, i + 1]
        rows = [0, 1] if place == "rows 0, 1" else columns
        if place == "columns 0, 1":
            columns = [0, 1]
        matrix[np.ix_(rows, columns)] = block
    if place == "first":
        matrix[2:] = 0
    if place == "last":
        matrix[:-2] = 0
    if place == "added":
        return matrix + np.eye(d_model)
    if place == "identity":
        return np.eye(d_model)
    return matrix


STEPS: tuple[dict[str, dict[str, Any]], ...] = (
    {
        "w is 1 / 10000^(i / d_model), with i = 0, 1, 2, ...: it is 1 / 10000^(2i / d_model)": {
            "exponent": "i / d"
        },
        "the exponent of 10000 is twice what it should be: 0, 2, 4, ... is 2i already": {
            "exponent": "4i / d"
        },
        "the exponent of 10000 is not divided by d_model": {"exponent": "2i"},
        "all pairs turn by the same angle, k: w is smaller for each next pair": {"exponent": "0"},
        "w is 10000^(2i / d_model): it is 1 divided by that": {"exponent": "times"},
        "10000 ** 2i / d_model means (10000 ** 2i) / d_model: put the exponent into parentheses": {
            "exponent": "precedence"
        },
        "k / 10000 ** 2i / d_model divides by d_model at the end: put the exponent into parentheses": {
            "exponent": "from the left"
        },
        "k is in the exponent, and not before w: the angle is w k": {"exponent": "k", "by": "1"},
        "the exponent is (2i + 1) / d_model": {"exponent": "(2i + 1) / d"},
    },
    {
        "k is not used: this is the matrix for k = 1": {"by": "1"},
        "the sign of k is dropped: k may be negative": {"by": "|k|"},
        "the angles are taken for degrees": {"by": "degrees"},
        "this is the matrix for k + 1": {"by": "k + 1"},
    },
    {
        "this is the matrix for -k: it moves back. The minus belongs to cos(w (pos + k)), the second row": {
            "square": "c -s s c"
        },
        "the minus of cos(a + b) = cos a cos b - sin a sin b is missing": {"square": "c s s c"},
        "both sines have a minus: sin(a + b) has none": {"square": "c -s -s c"},
        "the minus is at the cosine: in cos a cos b - sin a sin b it is at the sines": {"square": "c s s -c"},
        "sines and cosines of w k are exchanged: sin(w pos) is multiplied by cos(w k) in the first row": {
            "square": "s c c -s"
        },
        "the sines of w k are on the diagonal: there, sin(w pos) gives sin(w (pos + k)) by cos(w k)": {
            "square": "s c -c s"
        },
        "the second row is for another sum: cos(a + b) = cos a cos b - sin a sin b": {"square": "c -s c s"},
        "only the diagonal is filled, with sines and cosines: two numbers of a square are missing": {
            "square": "s 0 0 c"
        },
        "only the diagonal is filled: the other two numbers of a square are missing": {"square": "c 0 0 c"},
        "the first row has sine and cosine exchanged: sin(a + b) = sin a cos b + cos a sin b": {
            "square": "s c -s c"
        },
        "the second row of each square is missing: it gives cos(w (pos + k))": {"square": "c s 0 0"},
        "the first row of each square is missing: it gives sin(w (pos + k))": {"square": "0 0 -s c"},
        "the squares are multiplied by k: k belongs to the angle alone": {"square": "times k"},
        "all signs are turned": {"square": "-"},
    },
    {
        "the sine and the cosine of a pair are taken as half a table apart: they are neighbours": {
            "place": "halves"
        },
        "all squares are in the first two columns: each is on the diagonal": {"place": "columns 0, 1"},
        "all squares are in the first two rows: each is on the diagonal": {"place": "rows 0, 1"},
        "the squares overlap: the next pair begins two columns on": {"place": "overlapping"},
        "the identity is added: the matrix moves the position by itself": {"place": "added"},
        "only the first square is filled": {"place": "first"},
        "only the last square is filled": {"place": "last"},
        "this is the identity: it moves nothing": {"place": "identity"},
    },
)
