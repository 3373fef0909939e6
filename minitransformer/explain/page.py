"""The walk-through as one HTML file: a static picture, the model's weights, and the scripts.

The file needs no network and has a strict Content-Security-Policy: its one script and one style sheet are
allowed by their hashes, and everything else is data, which a browser never runs. The parts are in `assets/`:
Python writes the data; JavaScript, as modules that are joined to one script, computes and displays. The model
itself is in `assets/model`, and computes the same as minigrad.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from minigrad.graph.inline import InlinePage
from minigrad.graph.modules import join_modules
from minigrad.graph.page import content_policy
from minigrad.io import write_atomically

from ..errors import UserError
from ..files import printable
from .structure import structure
from .tokenizers import tokenizer_data

ASSETS = Path(__file__).with_name("assets")

Matrices = Mapping[str, tuple[np.ndarray, np.ndarray]]  # integers and scales by name


class Explanation:
    """A walk-through: notebooks show its `page`, `save` writes it.

    `picture` is the SVG that is shown if scripts do not run, or if a notebook's frames are removed.
    """

    def __init__(self, page: str, picture: str, title: str) -> None:
        self.page = page
        self.picture = picture
        self.title = title

    def __repr__(self) -> str:
        return f'<Explanation "{printable(self.title)}": a page of {len(self.page) / 1e6:.1f} MB>'

    def save(self, path: str | Path) -> None:
        """Write the page (.html): one file, which needs no network."""
        write_atomically(check_name(Path(path)), self.page.encode())

    def _repr_html_(self) -> str:
        return InlinePage(self.page, self.picture, self.title, height=760)._repr_html_()


def check_name(path: Path) -> Path:
    """The path; a UserError unless it is the name of a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path} is not the name of an HTML page.\nUse a name such as page.html.")
    return path


def to_html(
    model: Any, tokenizer: Any, text: str, *, title: str, run: str = "", picture: str = "",
    target: str | None = None,
    inputs: Mapping[str, Any] | None = None, labels: Sequence[str] = (), max_length: int | None = None,
    documents: Mapping[str, Any] | None = None, image: Any = None, matrices: Matrices | None = None,
    generation: Mapping[str, Any] | None = None, smoothing: float = 0.0, examples: Sequence[str] = (),
) -> str:  # fmt: skip
    """The page for a model on a sentence; backward starts at the loss of the `target`.

    `run` is the name of the run that trained the model: the heading, since a reader changes the text.
    `picture` is the SVG that is shown if scripts do not run. `documents` has numbers that are shown beside
    the model's own. `matrices` are weights that are stored as 8-bit integers, with a scale for each row.
    `generation` has the options of `generate` that an imported model needs. `smoothing` is that of the labels
    in training, which the page's loss leaves out. `examples` are other texts to try.
    """
    script = join_modules(ASSETS / "main.js")
    style = _asset("page.css")
    weights, numbers = _weights(model, matrices or {})
    data = {
        "title": title,
        "text": text,
        "target": target,
        "input": inputs or {},
        "start": getattr(model, "decoder_start_token_id", None),
        "generation": generation or getattr(model, "generation_options", {}),
        "model_type": model.model_type,
        "config": asdict(model.config),
        "structure": structure(model, labels),
        "tokenizer": tokenizer if isinstance(tokenizer, dict) else tokenizer_data(tokenizer),
        "max_length": max_length,
        "weights": weights,
        "documents": documents,
        "smoothing": smoothing,
        "examples": examples,
        "image": None if image is None else np.asarray(image, float).reshape(-1).tolist(),
    }
    heading = f'<h1 title="The run that trained this model">{html.escape(printable(run))}</h1>'
    return Template(_asset("page.html")).substitute(
        title=html.escape(printable(title)),
        heading=heading if run else f"<h1>{html.escape(printable(title))}</h1>",
        policy=content_policy(script, style),
        style=style,
        picture=picture,
        data=_json(data),
        weights=numbers,
        script=script,
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _weights(model: Any, matrices: Matrices) -> tuple[dict[str, Any], str]:
    """The position of each weight in the numbers, and the numbers as text.

    A weight is float32, or one of the `matrices` of 8-bit integers, with a float32 scale for each row.
    """
    places: dict[str, Any] = {}
    parts = []
    at = 0

    def add(array: np.ndarray) -> int:
        """Where the numbers of the array begin, in units of 4 bytes."""
        nonlocal at
        content = array.tobytes()
        content += bytes(-len(content) % 4)
        parts.append(base85(content))
        at += len(content) // 4
        return at - len(content) // 4

    for name, tensor in model.state_dict().items():
        places[name] = {"shape": list(tensor.shape)}
        if name in matrices:
            integers, scale = matrices[name]
            places[name] |= {"at": add(integers), "scale": add(scale.astype("<f4"))}
        else:
            places[name]["at"] = add(np.asarray(tensor, dtype="<f4"))
    return places, "".join(parts)


def base85(content: bytes) -> str:
    """Five letters for each four bytes, a sixteenth shorter than base64: the digits to the base 85, the
    highest first. They are the letters from `#` on without `<`, which a page could take for markup.
    """
    words = np.frombuffer(content, "<u4")
    found = np.empty((len(words), 5), np.uint8)
    for start in range(0, len(words), 1_000_000):  # the digits take five times the memory
        block = words[start : start + 1_000_000]
        digits = np.stack([block // 85**power % 85 for power in (4, 3, 2, 1, 0)], -1)
        found[start : start + 1_000_000] = digits + 35 + (digits >= 25)
    return found.tobytes().decode("ascii")


def _json(content: Any) -> str:
    """Compact JSON without `<`, so that nothing in it closes its element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, default=list)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
