"""What all lessons share: settings, predictions, controls, pictures and checks.

    minitransformer lesson 1             # in a terminal
    minitransformer lesson 1 --notebook

In a terminal or notebook, a lesson asks for predictions before it shows numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure

import minigrad as mg
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError

sys.path.append(str(Path(__file__).parents[1]))  # lessons import demos/gpt.py and demos/transformer.py

S = TypeVar("S", bound="Settings")

SEED = 0
"""Of the random numbers of a lesson; `minitransformer lesson 3 --seed 1` sets it."""


@dataclass
class Settings:
    """The settings of every lesson; each adds its own."""

    seed: int = 0
    """Of all random numbers."""
    pictures: Path = Path("runs/lessons")
    """Folder for the lesson's pictures."""


def in_notebook() -> bool:
    """Whether this runs in a notebook, and not in a script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def read_settings(kind: type[S]) -> S:
    """The settings from the command line or, in a notebook, the defaults; seeds the random numbers."""
    try:
        settings = kind() if in_notebook() else parse(kind)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
    for name, value in vars(settings).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise SystemExit(f"error: --{name} {value} is not finite.\nChoose a number, such as 0.5.")
    if settings.seed < 0:
        raise SystemExit(f"error: --seed {settings.seed} is negative.\nChoose 0 or more.")
    if settings.pictures.exists() and not settings.pictures.is_dir():
        raise SystemExit(f"error: {settings.pictures} is not a folder.\nChoose a folder with --pictures DIR.")
    mg.manual_seed(settings.seed)
    return settings


# ---------------------------------------------------------------- predict, then look


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


def predict(
    question: str, answer: float | str | None = None, choices: Sequence[str] | None = None
) -> Prediction:
    """Ask for a number, or for one of the choices, unless an option has already answered."""
    print(f"Predict: {question}" + (f" ({' / '.join(choices)})" if choices else ""))
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


# ---------------------------------------------------------------- controls, pictures, checks


def control(function: Callable[..., Any], settings: Settings, **ranges: tuple[float, float]) -> None:
    """Call `function` with settings: once in a script, at each move of a slider in a notebook.

    `ranges` gives the lowest and highest value of each setting, such as rate=(0.01, 2.0).
    """
    values = {name: getattr(settings, name) for name in ranges}
    if not in_notebook():
        options = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())
        print(f"(To change this: {options})")
        function(**values)
        return
    from ipywidgets import FloatSlider, IntSlider, interact

    sliders = {}
    for name, (low, high) in ranges.items():
        kind = IntSlider if isinstance(values[name], int) else FloatSlider
        step = 1 if kind is IntSlider else (high - low) / 100
        sliders[name] = kind(
            value=values[name], min=low, max=high, step=step, continuous_update=False, description=name
        )
    interact(function, **sliders)


def show(picture: Figure | mg.graph.Graph, name: str, settings: Settings | None = None) -> None:
    """Show a figure or a graph: in a notebook itself, in a script as a file."""
    if in_notebook():
        from IPython.display import Image, display

        if isinstance(picture, Figure):  # IPython draws figures only after pyplot was imported
            memory = BytesIO()
            picture.savefig(memory, format="png", dpi=100)
            picture = Image(memory.getvalue())
        display(picture)
        return
    folder = (settings or Settings()).pictures
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{'.png' if isinstance(picture, Figure) else '.svg'}"
    if isinstance(picture, Figure):
        picture.savefig(path, dpi=120)
    else:
        picture.save(path)
    print(f"[picture: {path}]")


def check(statement: str, holds: Any) -> None:
    """Print a statement that this run has confirmed; an AssertionError if it does not hold."""
    if not holds:
        raise AssertionError(f"this does not hold in this run: {statement}")
    print(f"✓ {statement}")


def check_time(statement: str, holds: Any) -> None:
    """Like `check`, for measured times: other programs may have disturbed them, so the lesson goes on."""
    print(f"✓ {statement}" if holds else f"✗ not in this run: {statement} (other programs may disturb it)")
