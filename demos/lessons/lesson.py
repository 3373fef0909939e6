"""What all lessons share: predictions and pictures.

    minitransformer lesson 1             # in a terminal
    minitransformer lesson 1 --notebook

In a terminal or notebook, a lesson asks for predictions before it shows numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import minigrad as mg

sys.path.append(str(Path(__file__).parents[1]))  # lessons import demos/gpt.py and demos/transformer.py

PICTURES = Path("runs/lessons")
SEED = 0
"""Of the random numbers of a lesson; `minitransformer lesson 3 --seed 1` sets it."""


def in_notebook() -> bool:
    """Whether this runs in a notebook, and not in a script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class Prediction:
    """What the learner expects; None if nobody was asked or answered."""

    def __init__(self, answer: float | str | None) -> None:
        self.answer = answer

    def compare(self, actual: Any) -> None:
        """Print the actual value, and how far off the prediction was."""
        shown = actual if isinstance(actual, str) else f"{float(actual):.4g}"
        if self.answer is None:
            print(f"It is {shown}.")
        elif isinstance(actual, str):
            verdict = "right" if self.answer == actual else f"it is {shown}"
            print(f"You predicted {self.answer}: {verdict}.")
        else:
            error = float(self.answer) - float(actual)
            side = "high" if error > 0 else "low"
            print(f"You predicted {self.answer:g}; it is {shown}: {abs(error):.2g} too {side}.")


def predict(question: str, choices: Sequence[str] | None = None) -> Prediction:
    """Ask for a number, or for one of the choices."""
    print(f"Predict: {question}" + (f" ({' / '.join(choices)})" if choices else ""))
    answer: float | str | None = None
    while answer is None:
        try:
            typed = input("> ").strip() if in_notebook() or sys.stdin.isatty() else ""
        except (EOFError, RuntimeError):  # a notebook that is executed without a reader
            typed = ""
        if not typed:
            break
        answer = _parse(typed, choices)
        if answer is None:
            expected = f"one of {', '.join(choices)}" if choices else "a number, such as 0.5"
            print(f"Expected {expected}; got {typed!r}. Press Enter to skip.")
    return Prediction(answer)


def _parse(typed: str, choices: Sequence[str] | None) -> float | str | None:
    if choices:
        return typed if typed in choices else None
    try:
        number = float(typed)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def show(picture: Figure | mg.graph.Graph, name: str) -> None:
    """Show a figure or a graph: in a notebook itself, in a script as a file."""
    if in_notebook():
        from IPython.display import Image, display

        if isinstance(picture, Figure):  # IPython draws figures only after pyplot was imported
            memory = BytesIO()
            picture.savefig(memory, format="png", dpi=100)
            picture = Image(memory.getvalue())
        display(picture)
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}{'.png' if isinstance(picture, Figure) else '.svg'}"
    if isinstance(picture, Figure):
        picture.savefig(path, dpi=120)
    else:
        picture.save(path)
    print(f"[picture: {path}]")
