"""How a pretrained model is meant to generate text: generation_config.json, or older keys of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files import write_json

NEEDED = (
    "forced_bos_token_id",
    "forced_eos_token_id",
)  # without them, texts are not what the model was made for
TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
SUGGESTED = ("num_beams", "length_penalty", "no_repeat_ngram_size", "early_stopping")


def needed_options(content: Mapping[str, Any], vocab_size: int) -> dict[str, Any]:
    """Options of `generate` that the model needs: forced and suppressed tokens, and several end tokens.

    Of bad_words_ids, single tokens are suppressed; sequences of several are not supported, and are ignored.
    """

    def is_token(value: Any) -> bool:
        return type(value) is int and 0 <= value < vocab_size

    found: dict[str, Any] = {name: content[name] for name in NEEDED if is_token(content.get(name))}
    lists = [[token] for token in _list(content.get("suppress_tokens"))] + _list(content.get("bad_words_ids"))
    single = [tokens[0] for tokens in lists if isinstance(tokens, list) and len(tokens) == 1]
    if suppressed := sorted({token for token in single if is_token(token)}):
        found["suppress_tokens"] = suppressed
    ends = content.get("eos_token_id")
    if isinstance(ends, list) and len(ends) > 1 and all(map(is_token, ends)):
        found["eos_token_id"] = ends
    return found


def suggested_options(content: Mapping[str, Any]) -> dict[str, Any]:
    """Options of how its authors decode with the model, such as {"num_beams": 4}."""
    found: dict[str, Any] = {}
    if not isinstance(content.get("num_beams"), int) or content["num_beams"] < 2:
        return found
    for name in SUGGESTED:
        value = content.get(name)
        default = {"length_penalty": 1.0, "no_repeat_ngram_size": 0, "early_stopping": False}.get(name)
        if value != default and (isinstance(value, int | float) or value == "never"):
            found[name] = value
    return found


def write_generation(folder: Path, settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Write generation_config.json: the options, and the special tokens of config.json."""
    tokens = {name: settings[name] for name in TOKENS if settings.get(name) is not None}
    write_json(folder / "generation_config.json", {**tokens, **options})


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
