"""The walk-through as one HTML file with a static picture, the model's weights, and a script.

The file needs no network. Its Content-Security-Policy allows one script and one style sheet, by their hashes;
everything else is data, which a browser does not run. Python writes the data. The JavaScript modules in
`assets/`, joined to one script, compute and display; `assets/model` computes the same results as minigrad.
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

Matrices = Mapping[str, tuple[np.ndarray, np.ndarray]]  # name -> 8-bit integers, scale of each row


class Explanation:
    """A walk-through page. Notebooks display it, and `save` writes it to a file.

    `page` is the HTML. `picture` is an SVG for when scripts do not run, or a notebook's frames are removed.
    """

    def __init__(self, page: str, picture: str, title: str) -> None:
        self.page = page
        self.picture = picture
        self.title = title

    def __repr__(self) -> str:
        return f'<Explanation "{printable(self.title)}": a page of {len(self.page) / 1e6:.1f} MB>'

    def save(self, path: str | Path) -> None:
        """Write the page to an .html file, which needs no network."""
        write_atomically(check_name(Path(path)), self.page.encode())

    def _repr_html_(self) -> str:
        return InlinePage(self.page, self.picture, self.title, height=760)._repr_html_()


def check_name(path: Path) -> Path:
    """Return `path`. Raise a UserError unless its suffix is .html or .htm."""
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
    """Return the HTML of the walk-through of a model on a text. Gradients are those of the loss of `target`.

    `run` is the name of the run that trained the model, shown as the heading instead of the `title`.
    `picture` is the SVG that is shown if scripts do not run. `documents` has printed numbers to show beside
    the model's. `matrices` has the weights that are stored as 8-bit integers. `generation` has the options of
    `generate` that an imported model needs. `smoothing` is the label smoothing of the training, which the
    page's loss does not use. `examples` are other texts to try.
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
    """Return the shape and position of each weight in the numbers, and the numbers as text (`base85`).

    Weights are stored as float32, except the `matrices` of 8-bit integers, with a float32 scale for each row.
    """
    places: dict[str, Any] = {}
    parts = []
    at = 0

    def add(array: np.ndarray) -> int:
        """Append an array, and return where its numbers begin, in units of 4 bytes."""
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
    """Encode each four bytes as five letters, a sixteenth shorter than base64.

    The letters are digits to the base 85, the highest first: the characters from `#` on, without `<`, which
    could begin a tag.
    """
    words = np.frombuffer(content, "<u4")
    found = np.empty((len(words), 5), np.uint8)
    for start in range(0, len(words), 1_000_000):  # in blocks, since the digits need five times the memory
        block = words[start : start + 1_000_000]
        digits = np.stack([block // 85**power % 85 for power in (4, 3, 2, 1, 0)], -1)
        found[start : start + 1_000_000] = digits + 35 + (digits >= 25)
    return found.tobytes().decode("ascii")


def _json(content: Any) -> str:
    """Compact JSON without `<` and `>`, so that nothing in it closes the element around it."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, default=list)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
