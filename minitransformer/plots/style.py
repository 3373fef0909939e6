"""Sizes, colours, token labels and file formats of all pictures."""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad import Tensor
from minigrad.io import write_atomically
from minigrad.palette import NEGATIVE, POSITIVE

from ..errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito 2008
MARKERS = "os^vDPX"
BLUE = COLOURS[0]
ORANGE = COLOURS[1]
GREY = "#666666"
PALE = "#b8c4cc"
FONT = "DejaVu Sans"  # comes with matplotlib
STYLE: dict[str, Any] = {
    "font.size": 8.0, "axes.titlesize": 8.0, "axes.labelsize": 8.0, "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0, "ytick.labelsize": 7.0, "axes.linewidth": 0.6, "lines.linewidth": 1.2,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "grid.alpha": 0.3,
}  # fmt: skip
TOKEN_SIZE = 6.5  # points
LINE = 0.115  # inches: the height of a token's label
CHARACTER = 0.062  # inches: the width of a character in a label
TITLE_LINE = 0.17  # inches: the height of a line of a title
LEAST_CELL = 0.17  # inches: the smallest cell of a heat map that has room for its number
FORMATS = ("svg", "png", "pdf")


@contextmanager
def plot_style(*texts: Sequence[object]) -> Iterator[None]:
    """A context manager that sets our matplotlib settings, and fonts with the characters of these tokens.

    A `matplotlibrc`, such as one in the current folder, has no effect inside; it could even run LaTeX.
    """
    from matplotlib import rc_context, rcdefaults, rcParams

    characters = {c for tokens in texts for token in tokens for c in str(token)}
    others = {font for c in characters if (font := font_of(c)) is not None} - {FONT}
    settings: Any = {**STYLE, "font.family": [FONT, *sorted(others)]}
    with rc_context():
        rcdefaults()
        rcParams.update(settings)
        yield


def new_figure(width: float, height: float, title: str = "", layout: str = "constrained") -> Figure:
    """Create a figure that notebooks display. The title is added above the `width` x `height` inches."""
    lines = textwrap.wrap(title, int((width - 0.1) / CHARACTER))
    figure = _figure_class()(figsize=(width, height + TITLE_LINE * len(lines)), layout=layout)
    if lines:
        top = {} if layout == "constrained" else {"y": 1 - 0.04 / figure.get_figheight(), "va": "top"}
        figure.suptitle("\n".join(lines), fontsize=8, parse_math=False, **top)
    return figure


@cache
def _figure_class() -> Any:
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            return to_bytes(self, "png")

    return Picture


def save(figure: Figure, path: str | Path | None) -> Figure:
    """Write the figure to `path`, unless it is None, and return the figure."""
    if path is not None:
        path = Path(path)
        kind = path.suffix[1:].lower()
        if kind not in FORMATS:
            raise UserError(
                f"{path} is not the name of a picture.\n"
                f"Pass a path that ends with {', '.join(f'.{each}' for each in FORMATS)}."
            )
        write_atomically(path, to_bytes(figure, kind))
    return figure


def to_bytes(figure: Figure, kind: str) -> bytes:
    """Render a figure as an "svg", "png" or "pdf" file. The same figure gives the same bytes."""
    from matplotlib import rc_context

    picture = io.BytesIO()
    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "minitransformer", "text.usetex": False}):
        figure.savefig(picture, format=kind, dpi=200, metadata=no_date)
    return picture.getvalue()


@cache
def colour_map(name: str) -> Any:
    """The colour map of all pages and plots for "weights" (0 to 1) or "signed" numbers."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = {"weights": ["#ffffff", POSITIVE], "signed": [NEGATIVE, "#ffffff", POSITIVE]}
    return LinearSegmentedColormap.from_list(name, colours[name])


def as_array(values: Any) -> np.ndarray:
    return values.numpy() if isinstance(values, Tensor) else np.asarray(values)


def two_digits(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def write_numbers(panel: Any, table: np.ndarray, cell: float) -> None:
    """Write the numbers of a table into the cells of a heat map, if the cells are large enough."""
    for (row, column), value in np.ndenumerate(table):
        if cell > LEAST_CELL and not np.isnan(value):
            panel.text(column, row, two_digits(value), ha="center", va="center", fontsize=6)


# ---------------------------------------------------------------- labels of tokens

JOINERS = "\u200c\u200d"  # invisible parts of words in Persian and in Indian languages
SPACES = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"}


def label(token: object, limit: int = 14) -> str:
    """Return a token as a label of at most `limit` characters, with undrawable characters made visible.

    Spaces around a word are removed; a token that is only spaces is shown as symbols.
    """
    text = str(token)
    text = text.strip() or "".join(SPACES.get(c, c) for c in text) or "''"
    shown = "".join(_visible(c) for c in text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _visible(character: str) -> str:
    if character.isspace():
        return "↵" if character in "\r\n" else " "
    is_invisible = unicodedata.category(character) == "Cf" and character not in JOINERS
    return character if font_of(character) and not is_invisible else f"U+{ord(character):04X}"


def labels_of(tokens: Sequence[object]) -> list[str]:
    return [label(token) for token in tokens]


def length(labels: Sequence[str]) -> float:
    """The length of the longest label, in inches."""
    return max(map(len, labels)) * CHARACTER


def label_ticks(axis: Any, labels: Sequence[str], room: float, rotation: float = 0) -> None:
    """Label each tick or, if the labels do not fit in `room` inches, every second, third, ... tick."""
    step = max(1, math.ceil(len(labels) * LINE / room - 0.1)) if not rotation or rotation == 90 else 1
    axis.set_ticks(
        range(0, len(labels), step), labels[::step], rotation=rotation, fontsize=TOKEN_SIZE, parse_math=False
    )
    axis.set_tick_params(length=2 if step > 1 else 0, pad=2, width=0.4)


@cache
def font_of(character: str) -> str | None:
    """The name of a font that has the character: matplotlib's own or an installed one; None without one."""
    from matplotlib.font_manager import findfont, get_font

    if get_font(findfont(FONT)).get_char_index(ord(character)):
        return FONT
    return next((name for name, font in _other_fonts() if font.get_char_index(ord(character))), None)


@cache
def _other_fonts() -> list[tuple[str, Any]]:
    """The installed fonts by name, without fonts of last resort and emoji, which matplotlib cannot draw."""
    from matplotlib.font_manager import fontManager, get_font

    found: dict[str, Any] = {}
    for entry in fontManager.ttflist:
        if entry.name not in found and not any(word in entry.name for word in ("Emoji", "Last Resort")):
            try:
                found[entry.name] = get_font(entry.fname)
            except (OSError, RuntimeError):  # the file no longer exists, or is not a readable font
                continue
    return [*found.items()]
