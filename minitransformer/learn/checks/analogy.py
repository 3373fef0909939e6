"""Analogies: king - man + woman."""

from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases, compare, with_pairs

LESSON = 6
REASONING = ""
HINTS = (
    "Five steps: lengths, unit vectors, y, cosines of all words with y at once, the best ones. Write the "
    "shapes beside them: (V, 1), (V, D), (D,), (V,).",
    "The rows of `unit` have length 1, so the cosine with y is unit @ y / |y|. Set the cosines of a, b and c "
    "to -inf before you sort, and sort from the largest down.",
    "unit = vectors / lengths (with 1 for a length of 0); y = unit[a] - unit[b] + unit[c]; "
    "cosines = unit @ y / np.linalg.norm(y); cosines[[a, b, c]] = -np.inf; np.argsort(-cosines)[:count].",
)
ADVICE = "Unit vectors, x_a - x_b + x_c, cosines, without the three words, the largest first."


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(3)
    vectors = random.normal(size=(12, 5)) * random.uniform(0.3, 3, size=(12, 1))
    square = random.normal(size=(6, 6)) * random.uniform(0.3, 3, size=(6, 1))
    padded = vectors.copy()
    padded[6] = 0  # a row of padding, which is not one of the three words
    cases = [(vectors, 0, 1, 2, 3), (vectors, 7, 3, 11, 1), (vectors, 5, 9, 4, 9), (square, 4, 0, 2, 2)]
    cases.append((padded, 0, 1, 2, 9))
    cases.append((random.normal(size=(200, 8)), 17, 150, 3, 20))
    check_cases(
        answer.analogy, cases, _analogy, with_pairs(_analogy, STEPS), _call, ADVICE, _same, _compare, count=2
    )


def _call(vectors: np.ndarray, a: int, b: int, c: int, count: int) -> str:
    zeros = ", one of them zeros," if not vectors.any(1).all() else ""
    return f"analogy(vectors, {a}, {b}, {c}, {count}) for vectors of shape {vectors.shape}{zeros}"


def _compare(call: str, value: Any, right: Any, advice: str) -> None:
    compare(f"`rows` of {call}", value[0], right[0], advice=advice)
    compare(f"`found` of {call}", value[1], right[1], advice=advice)


def _same(value: Any, other: Any) -> bool:
    """Whether rows and cosines are equal. (Rows alone are often equal by chance.)"""
    one, two = ([np.asarray(part, float) for part in pair] for pair in (value, other))
    if np.isinf(one[1]).any():  # infinite cosines are tied, so their rows may be in any order
        one[0], two[0] = np.sort(one[0]), np.sort(two[0])
    return all(
        x.shape == y.shape and np.allclose(x, y, atol=1e-6, equal_nan=True)
        for x, y in zip(one, two, strict=True)
    )


def _analogy(
    vectors: np.ndarray,
    a: int,
    b: int,
    c: int,
    count: int,
    *,
    lengths: str = "rows",
    signs: tuple[int, int, int] = (1, -1, 1),
    measure: str = "cosine",
    left_out: str = "abc",
    by: str = "-inf",
    order: str = "closest first",
    found: str = "cosines",
) -> tuple[Any, Any]:
    """The right answer or, with other arguments, an answer with mistakes."""
    unit = vectors / _lengths(vectors, lengths)
    sought = signs[0] * unit[a] + signs[1] * unit[b] + signs[2] * unit[c]
    scores = _scores(unit, sought, measure)
    left = [{"a": a, "b": b, "c": c}[name] for name in left_out]
    if by == "deleted":
        scores = np.delete(scores, left)
    else:
        scores[left] = float(by)
    best = np.argsort(-scores)
    rows: Any = {
        "closest first": best[:count],
        "furthest first": best[::-1][:count],
        "closest last": best[:count][::-1],
        "by row": np.sort(best[:count]),
        "all": best,
        "one more": best[: count + 1],
        "from the second": best[1 : count + 1],
        "one": best[0],
    }[order]
    if found == "not sorted":
        return rows, scores[:count]
    if found == "angles":
        return rows, np.arccos(scores[rows])
    if found == "positive":
        return rows, -scores[rows]
    return rows, scores[rows]


def _scores(unit: np.ndarray, sought: np.ndarray, measure: str) -> np.ndarray:
    of_y = np.linalg.norm(sought)
    if measure == "dot":
        return unit @ sought
    if measure == "distance":
        return -np.linalg.norm(unit - sought, axis=1)
    if measure == "cosine":
        return unit @ sought / (_lengths(unit, "rows")[:, 0] * of_y)
    return unit @ sought / (of_y**2 if measure == "y squared" else of_y)


def _lengths(vectors: np.ndarray, of: str) -> Any:
    lengths = {
        "rows": lambda: np.linalg.norm(vectors, axis=1, keepdims=True),
        "nan": lambda: np.linalg.norm(vectors, axis=1, keepdims=True),
        "columns": lambda: np.linalg.norm(vectors, axis=0, keepdims=True),
        "all": lambda: np.sqrt((vectors**2).sum(keepdims=True)),
        "squared": lambda: (vectors**2).sum(1, keepdims=True),
        "sums": lambda: np.abs(vectors).sum(1, keepdims=True),
        "none": lambda: np.ones((1, 1)),
    }[of]()
    return lengths if of == "nan" else np.where(lengths > 0, lengths, 1)


COLUMNS = "the lengths are those of the columns: a word's vector is a row, so sum along axis 1"
WHOLE = "all vectors are divided by one number, the length of the whole table: each has its own length"
SQUARED = "the vectors are divided by the square of their length"
SUMS = "the vectors are divided by the sum of their absolute numbers, not by their length"
BARE = {"measure": "without the words' lengths"}
STEPS: tuple[dict[str, dict[str, Any]], ...] = (  # the mistakes in each step
    {
        "the row of zeros was divided by its length, 0, and its cosine is nan: for a length of 0 use 1": {
            "lengths": "nan"
        },
        "the vectors are added as they are: step 1 divides each by its length first": {"lengths": "none"},
        "the words' lengths are not divided by: the cosine is u y / (|u| |y|)": {"lengths": "none"} | BARE,
        "the vectors are never divided by their lengths: long ones count more, and these are no cosines": {
            "lengths": "none", "measure": "dot",
        },
        COLUMNS: {"lengths": "columns"} | BARE,
        f"{COLUMNS}; and the numbers are dot products": {"lengths": "columns", "measure": "dot"},
        WHOLE: {"lengths": "all"} | BARE,
        SQUARED: {"lengths": "squared"} | BARE,
        SUMS: {"lengths": "sums"} | BARE,
    },
    {
        "y is x_a + x_b - x_c: b is taken away and c is added": {"signs": (1, 1, -1)},
        "y is x_a - x_b - x_c: c is added": {"signs": (1, -1, -1)},
        "y is x_a + x_b + x_c: b is taken away": {"signs": (1, 1, 1)},
        "y is x_b - x_a + x_c: the step from b to a is x_a - x_b": {"signs": (-1, 1, 1)},
        "y is x_a - x_b, without x_c": {"signs": (1, -1, 0)},
    },
    {
        "the numbers are dot products: the length of y, which is not 1, is missing in the division": {
            "measure": "dot"
        },
        "the numbers are divided by the square of the length of y": {"measure": "y squared"},
        "the numbers are distances: the words are compared by the cosine": {
            "measure": "distance", "found": "positive",
        },
        "the numbers are negative distances: the words are compared by the cosine": {"measure": "distance"},
        "the numbers are angles: return their cosines": {"found": "angles"},
    },
    {
        "the three words themselves are among the answers: step 4": {"left_out": ""},
        "b and c are among the answers: none of the three words is one": {"left_out": "a"},
        "a and b are among the answers: none of the three words is one": {"left_out": "c"},
        "a and c are among the answers: none of the three words is one": {"left_out": "b"},
        "c is among the answers: none of the three words is one": {"left_out": "ab"},
        "b is among the answers: none of the three words is one": {"left_out": "ac"},
        "a is among the answers: none of the three words is one": {"left_out": "bc"},
        "the three words have cosine 0, more than a negative one: leave them out by -inf": {"by": "0"},
        "row numbers are those of a shorter table, without the three words: return those of `vectors`": {
            "by": "deleted"
        },
    },
    {
        "the smallest come first, and so do the three that are left out: sort from the largest": {
            "order": "furthest first"
        },
        "the least similar words come first: sort from the largest": {"order": "furthest first", "by": "inf"},
        "these are the closest words, but the closest is the last": {"order": "closest last"},
        "these are the closest words, but in the order of their rows: the closest comes first": {
            "order": "by row"
        },
        "all words are returned: return `count`": {"order": "all"},
        "one word too many": {"order": "one more"},
        "the closest word is missing: begin with the first of the sorted rows": {"order": "from the second"},
        "this is one word: return an array of `count`": {"order": "one"},
        "`found` has the cosines of the first rows of the table: it must have those of `rows`": {
            "found": "not sorted"
        },
    },
)  # fmt: skip
