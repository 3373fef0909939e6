"""The model that runs in the page: JavaScript, in `assets/model`, which computes the same as minigrad.

`createModel(payload)` in that script returns a model with `tokenize`, `run` (every activation), `backward`
(every gradient), `generate` and `beams`. The script has no other name at its top level.
"""

from __future__ import annotations

from importlib.resources import files

SCRIPTS = ("tensors.js", "layers.js", "recurrent.js", "models.js", "decoding.js", "tokenizers.js", "model.js")


def model_script() -> str:
    """The script of the model, which defines `createModel`."""
    folder = files(__package__) / "assets" / "model"
    parts = [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(["const createModel = (() => {", *parts, "return createModel;", "})();"])
