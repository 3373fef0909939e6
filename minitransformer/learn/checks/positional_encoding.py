"""Positional encoding."""

from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases, with_pairs

LESSON = 7
REASONING = "shapes"
HINTS = (
    "There are d_model / 2 different angles in each row. `np.arange(0, d_model, 2)` is 2i for each of them. "
    "Which shapes must positions and these numbers have, so that their quotient is a table?",
    "(length, 1) / (d_model / 2,) is (length, d_model / 2). The sines go into columns 0, 2, 4, ..., the "
    "cosines into columns 1, 3, 5, ...: slices with a step of 2.",
    "angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model); "
    "table[:, 0::2] = np.sin(angles); table[:, 1::2] = np.cos(angles).",
)
ADVICE = "Compare with the formula: position 0 is 0, 1, 0, 1, ...; position 1 begins with sin(1), cos(1)."


def check(answer: ModuleType) -> None:
    cases = [(5, 8), (3, 4), (4, 2), (1, 6), (12, 10), (0, 4), (200, 64)]
    call = lambda length, d_model: f"positional_encoding({length}, {d_model})"
    mistakes = with_pairs(_table, STEPS)
    check_cases(answer.positional_encoding, cases, _table, mistakes, call, ADVICE, by_luck=True)


def _angles(length: int, d_model: int, exponent: str, base: float, positions: str) -> np.ndarray:
    """The angle of each position and column."""
    pos = {
        "0, 1, ...": np.arange(length),
        "1, 2, ...": np.arange(1, length + 1),
        "2 pi": 2 * np.pi * np.arange(length),
        "shares": np.arange(length) / max(length, 1),
        "backward": np.arange(length)[::-1],
    }[positions][:, None]
    column = np.arange(d_model)
    i = column // 2
    if exponent == "times":
        return pos * base ** (2 * i / d_model)
    if exponent == "precedence":
        return pos / (base ** (2.0 * i) / d_model)
    if exponent == "from the left":
        return pos / base ** (2.0 * i) / d_model
    if exponent == "lost":
        return pos * 0.0 * column
    if exponent == "product":
        return pos / (base * 2 * i / d_model)
    powers = {
        "2i / d": 2 * i / d_model,
        "i / d": i / d_model,
        "4i / d": 4 * i / d_model,
        "of the column": column / d_model,
        "twice the column": 2 * column / d_model,
        "0": 0 * column,
        "2i": 2 * i,
        "(2i + 1) / d": (2 * i + 1) / d_model,
        "(2i + 2) / d": (2 * i + 2) / d_model,
        "2i / length": 2 * i / max(length, 1),
        "2i / (d - 1)": 2 * i / (d_model - 1),
        "2i, then 2i + 2": 2 * (i + column % 2) / d_model,
        "2i, then 4i + 2": np.where(column % 2 == 1, 4 * i + 2, 2 * i) / d_model,
    }
    if exponent == "rounded":
        return np.floor(pos / base ** powers["2i / d"])
    return pos / base ** powers[exponent]


def _table(
    length: int,
    d_model: int,
    *,
    exponent: str = "2i / d",
    base: float = 10000,
    positions: str = "0, 1, ...",
    waves: str = "sin, cos",
    layout: str = "pairs",
) -> np.ndarray:
    """The right table or, with other arguments, a table with mistakes."""
    angles = _angles(length, d_model, exponent, base, positions)
    if waves == "degrees":
        angles = np.deg2rad(angles)
    sines, cosines = np.sin(angles), np.cos(angles)
    odd = np.arange(d_model) % 2 == 1
    table: np.ndarray = {
        "sin, cos": np.where(odd, cosines, sines),
        "degrees": np.where(odd, cosines, sines),
        "cos, sin": np.where(odd, sines, cosines),
        "sin": sines,
        "cos": cosines,
        "angles": angles,
        "sin, -cos": np.where(odd, -cosines, sines),
        "by position": np.where(np.arange(length)[:, None] % 2 == 1, cosines, sines),
    }[waves]
    if layout == "halves":
        return np.concatenate([table[:, 0::2], table[:, 1::2]], 1)
    if layout == "integers":
        return np.trunc(table)
    if layout == "sines only":
        return np.where(odd, 0, table)
    if layout == "cosines only":
        return np.where(odd, table, 0)
    if layout == "one pair":
        return table[:, 0::2]
    return table.T if layout == "transposed" else table


STEPS: tuple[dict[str, dict[str, Any]], ...] = (
    {
        "positions are counted from 1: the first is 0": {"positions": "1, 2, ..."},
        "positions are divided by the length: they are 0, 1, 2, ...": {"positions": "shares"},
        "positions are multiplied by 2 pi: the angle is pos / 10000^(2i / d_model)": {"positions": "2 pi"},
        "positions are counted backward": {"positions": "backward"},
    },
    {
        "the exponent is i / d_model, with pairs counted 0, 1, 2, ...: it is 2i / d_model": {
            "exponent": "i / d"
        },
        "the exponent is twice what it should be: 0, 2, 4, ... is 2i already": {"exponent": "4i / d"},
        "each column has its own angle: the sine and the cosine of a pair have the same, with 2i": {
            "exponent": "of the column"
        },
        "each column has its own angle, with twice its number: i counts pairs": {
            "exponent": "twice the column"
        },
        "all pairs have the same angle: the exponent is 0, as by //, which drops what follows the point": {
            "exponent": "0"
        },
        "the exponent is not divided by d_model": {"exponent": "2i"},
        "the exponent is (2i + 1) / d_model: of both columns of a pair it is 2i / d_model": {
            "exponent": "(2i + 1) / d"
        },
        "the exponent is (2i + 2) / d_model: pairs are counted from 0": {"exponent": "(2i + 2) / d"},
        "the exponent is 2i / (d_model - 1): it is 2i / d_model": {"exponent": "2i / (d - 1)"},
        "the cosine has the angle of the next pair: both of a pair have the same": {
            "exponent": "2i, then 2i + 2"
        },
        "the cosines have the exponent 2 (2i + 1) / d_model: both of a pair have 2i / d_model": {
            "exponent": "2i, then 4i + 2"
        },
        "the exponent is divided by the length: it is 2i / d_model": {"exponent": "2i / length"},
        "positions are multiplied by 10000^(2i / d_model): they are divided": {"exponent": "times"},
        "10000 ** 2i / d_model means (10000 ** 2i) / d_model: put the exponent into parentheses": {
            "exponent": "precedence"
        },
        "pos / 10000 ** 2i / d_model divides by d_model at the end: put the exponent into parentheses": {
            "exponent": "from the left"
        },
        "all angles are almost 0: put the exponent, 2i / d_model, into parentheses": {"exponent": "lost"},
        "the angles are rounded down, as by // or astype(int): divide with /": {"exponent": "rounded"},
        "10000 is multiplied by 2i / d_model: it is raised to that power": {"exponent": "product"},
        "the base is 1000: it is 10000": {"base": 1000},
        "the base is 100000: it is 10000": {"base": 100000},
        "the base is e: it is 10000": {"base": np.e},
        "the base is e^4, as by exp with log10: use the natural logarithm, np.log": {"base": np.exp(4)},
    },
    {
        "sines and cosines are exchanged: sines in columns 0, 2, 4, ...": {"waves": "cos, sin"},
        "all columns are sines: columns 1, 3, 5, ... are cosines": {"waves": "sin"},
        "all columns are cosines: columns 0, 2, 4, ... are sines": {"waves": "cos"},
        "these are the angles: take sines and cosines of them": {"waves": "angles"},
        "the cosines have the wrong sign": {"waves": "sin, -cos"},
        "rows are sines or cosines in turn: it is the columns that are": {"waves": "by position"},
        "the angles are taken for degrees": {"waves": "degrees"},
    },
    {
        "the sines are in the left half, the cosines in the right: they alternate": {"layout": "halves"},
        "the numbers are cut off to integers: make a table of floats": {"layout": "integers"},
        "the columns of cosines are 0": {"layout": "sines only"},
        "the columns of sines are 0": {"layout": "cosines only"},
        "half of the columns are missing: each angle has a sine and a cosine": {"layout": "one pair"},
        "the table is transposed: a row for each position": {"layout": "transposed"},
    },
)
