"""Data made by a rule, as small tests of what a model can learn: reversal, addition, balanced brackets.

Each function gives the splits "train", "validation" and "test". No example occurs twice, so that what is
tested was never trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .batching import generator

GENERATED = 5  # random stream
HELD_OUT = 500  # examples of the validation split, and of the test split

Splits = dict[str, list[Any]]


def reverse(count: int = 10_000, symbols: int = 20, low: int = 4, high: int = 12) -> Splits:
    """Random letters and the same letters backwards: ("d a c b", "b c a d"); `low` to `high` letters."""
    letters = np.array([chr(ord("a") + i) for i in range(symbols)])

    def draw(random: np.random.Generator) -> tuple[str, str]:
        chosen = letters[random.integers(0, symbols, random.integers(low, high + 1))]
        return " ".join(chosen), " ".join(chosen[::-1])

    return _distinct(draw, count, stream=0)


def addition(count: int = 20_000, digits: int = 5) -> Splits:
    """Sums of two numbers of 3 to `digits` digits, written as one adds by hand: the units first, and the same
    places below each other, so with zeros up to `digits`. 123 + 9876 = 9999 is
    ("3 2 1 0 0 + 6 7 8 9 0", "9 9 9 9").

    With the highest digit first, which depends on all others, a small model learns this much more slowly
    (Lee et al. 2023, "Teaching Arithmetic to Small Transformers").
    """

    def draw(random: np.random.Generator) -> tuple[str, str]:
        lengths = random.integers(3, digits + 1, 2)
        a, b = (int(random.integers(10 ** (n - 1), 10**n)) for n in lengths)
        spell = lambda number: " ".join(reversed(number))
        return f"{spell(f'{a:0{digits}}')} + {spell(f'{b:0{digits}}')}", spell(str(a + b))

    return _distinct(draw, count, stream=1)


def brackets(count: int = 20_000, low: int = 4, high: int = 16) -> Splits:
    """Brackets of two kinds and whether they are balanced: ("( [ ] )", "balanced"); half of them are.

    The others are balanced texts with two brackets exchanged: how often each bracket occurs tells nothing.
    """

    def draw(random: np.random.Generator) -> tuple[str, str]:
        text = _balanced(random, int(random.integers(low // 2, high // 2 + 1)))
        if random.random() < 0.5:
            return " ".join(text), "balanced"
        while is_balanced(text):
            i, j = random.integers(0, len(text), 2)
            text[i], text[j] = text[j], text[i]
        return " ".join(text), "unbalanced"

    return _distinct(draw, count, stream=2)


def spaced(text: str) -> str:
    """A text of brackets as the examples have them: a space between any two."""
    return " ".join("".join(text.split()))


def is_balanced(text: Sequence[str]) -> bool:
    """Whether each bracket is closed by its own kind, the last one that was opened first."""
    stack = []
    for bracket in text:
        if bracket in "([":
            stack.append(bracket)
        elif not stack or stack.pop() + bracket not in ("()", "[]"):
            return False
    return not stack


def _balanced(random: np.random.Generator, pairs: int) -> list[str]:
    """A balanced text of `pairs` brackets: each step opens one, or closes the last one that is open."""
    text: list[str] = []
    stack: list[str] = []
    for _ in range(2 * pairs):
        left = 2 * pairs - len(text) - len(stack)  # brackets that can still be opened, and closed
        if stack and (left == 0 or random.random() < 0.5):
            text.append(stack.pop())
        else:
            opened, closed = ("()", "[]")[int(random.integers(2))]
            text.append(opened)
            stack.append(closed)
    return text


def _distinct(draw: Callable[[np.random.Generator], tuple[str, str]], count: int, stream: int) -> Splits:
    """`count` different examples to train on, and HELD_OUT for validation and for the test."""
    random = generator(0, GENERATED, stream)
    found: dict[str, tuple[str, str]] = {}
    while len(found) < count + 2 * HELD_OUT:
        example = draw(random)
        found.setdefault(example[0], example)
    examples = list(found.values())
    return {
        "train": examples[2 * HELD_OUT :],
        "validation": examples[:HELD_OUT],
        "test": examples[HELD_OUT : 2 * HELD_OUT],
    }
