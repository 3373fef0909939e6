"""The files of sentence-transformers, which say how a sentence encoder makes one vector of a text.

Only the normalized mean of the tokens' states is supported: the head "similarity" of a BERT.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..files import write_json
from .errors import PretrainedError
from .settings import read_any, read_optional

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"


def check_pooling(folder: Path) -> None:
    """Raise a PretrainedError if the vectors of a sentence encoder are not means of its states."""
    if not (folder / MODULES).is_file():
        return
    content = read_any(folder / MODULES)
    modules = content if isinstance(content, list) else []
    kinds = [str(each.get("type")).rpartition(".")[2] for each in modules if isinstance(each, dict)]
    if other := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise PretrainedError(
            f"{folder / MODULES} has the module {', '.join(other)}; only "
            f"Transformer, Pooling and Normalize are supported.\n"
            f"Choose a model without it, or load it with another head."
        )
    paths = [each.get("path") for each in modules if str(each.get("type")).endswith("Pooling")]
    pooling = folder / POOLING
    if paths and isinstance(paths[0], str) and Path(paths[0]).name == paths[0]:
        pooling = folder / paths[0] / "config.json"
    content = read_optional(pooling)
    prefix = "pooling_mode_"
    modes = [name.removeprefix(prefix) for name, on in content.items() if name.startswith(prefix) and on]
    modes = [content["pooling_mode"]] if isinstance(content.get("pooling_mode"), str) else modes
    if wrong := [mode for mode in modes if mode not in ("mean", "mean_tokens")]:
        raise PretrainedError(
            f"{pooling} has the pooling {', '.join(wrong)}; only the mean of "
            f"all tokens is supported.\n"
            f"Choose a model with mean pooling, or load it with another head."
        )
    for name, key in ((LENGTH, "do_lower_case"), (PROMPTS, "default_prompt_name")):
        if value := read_optional(folder / name).get(key):
            raise PretrainedError(
                f"{folder / name} has {key} = {value!r:.60}, which is not "
                f"supported.\nChoose a model without it, or load it with another head."
            )


def max_length(folder: Path) -> int | None:
    """The maximum number of tokens that a sentence encoder reads of a text; None if no file says it."""
    content = read_optional(folder / LENGTH)
    length = content.get("max_seq_length")
    return length if isinstance(length, int) and length > 2 else None


def write_pooling(folder: Path, config: Any, max_length: int | None = None) -> None:
    """Write the files with which sentence-transformers computes the same vectors."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / MODULES, modules)
    write_json(folder / LENGTH, {"max_seq_length": max_length or config.max_position_embeddings})
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    pooling = {"word_embedding_dimension": config.hidden_size, "pooling_mode_mean_tokens": True}
    write_json(folder / POOLING, pooling)
