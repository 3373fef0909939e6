"""Options with which a pretrained model should generate: generation_config.json, or keys of config.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..files import write_json
from .settings import read_object

TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
# keys of transformers that affect generated texts -> the values with which they have no effect
APPLIED: dict[str, Any] = {  # options of our `generate` with the same names
    "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_new_tokens": 0, "renormalize_logits": False,
}  # fmt: skip
BEAMS: dict[str, Any] = {"length_penalty": 1.0, "early_stopping": False, "num_return_sequences": 1}
SAMPLING: dict[str, Any] = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0}
OTHER_SAMPLING: dict[str, Any] = {"typical_p": 1.0, "top_h": None, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}
NEUTRAL = APPLIED | BEAMS | SAMPLING | OTHER_SAMPLING | {
    "num_beams": 1, "do_sample": False, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "eos_token_id": None, "decoder_start_token_id": None, "suppress_tokens": None, "bad_words_ids": None,
    "min_length": 0, "max_length": 20, "max_new_tokens": None,
    # not supported
    "begin_suppress_tokens": None, "sequence_bias": None, "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0, "exponential_decay_length_penalty": None, "guidance_scale": 1,
    "stop_strings": None, "max_time": None, "num_beam_groups": 1, "diversity_penalty": 0.0,
    "penalty_alpha": 0, "dola_layers": None, "constraints": None, "force_words_ids": None,
    "token_healing": False, "watermarking_config": None,
}  # fmt: skip
IN_RANGE: dict[str, Callable[[float], bool]] = {  # whether `generate` accepts a value
    "repetition_penalty": lambda x: x > 0, "no_repeat_ngram_size": lambda x: x >= 0,
    "min_new_tokens": lambda x: x >= 0, "num_beams": lambda x: 1 <= x <= 1000,
    "num_return_sequences": lambda x: x >= 1, "temperature": lambda x: x > 0, "top_k": lambda x: x >= 0,
    "top_p": lambda x: 0 < x <= 1, "min_p": lambda x: 0 <= x <= 1,
}  # fmt: skip
HARMLESS = {  # keys that do not affect texts: padding, caches, speculative decoding, outputs
    "pad_token_id", "bos_token_id", "use_cache", "cache_implementation", "cache_config", "max_cache_len",
    "low_memory", "use_mtp", "prefill_chunk_size", "remove_invalid_values", "return_legacy_cache",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
    "return_dict", "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind",
    "assistant_ensemble_weight", "speculation_type", "prompt_lookup_num_tokens", "max_matching_ngram_size",
    "compile_config", "disable_compile", "continuous_batching_config", "transformers_version",
    "_from_model_config", "_commit_hash", "_name_or_path",
}  # fmt: skip


def read_generation(
    folder: Path, settings: Mapping[str, Any], model: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return three dicts of options: those the model needs, those its authors suggest, and the unsupported.

    The unsupported are keys that affect texts but are not applied. Options are read from
    generation_config.json or, if there is no such file, from config.json (`settings`), as in transformers.
    """
    path = folder / "generation_config.json"
    content = read_object(path) if path.is_file() else {key: settings.get(key) for key in NEUTRAL}
    left = {
        key: value
        for key, value in content.items()
        if key not in HARMLESS and value is not None and value != NEUTRAL.get(key)
    }
    in_range = lambda key: key not in IN_RANGE or IN_RANGE[key](left[key])
    is_valid = lambda key: _fits(left.get(key), NEUTRAL[key]) and in_range(key)
    take = lambda keys: {key: left.pop(key) for key in keys if is_valid(key)}
    needed = take(APPLIED) | _tokens(left, model)
    if model.is_encoder_decoder and _fits(left.get("min_length"), 0):  # min_length counts the start token
        needed["min_new_tokens"] = max(left.pop("min_length") - 1, needed.get("min_new_tokens", 0))
    most: Any = left.get("max_length")
    if not model.is_encoder_decoder or (_fits(most, 0) and most >= (model.max_length or math.inf)):
        left.pop("max_length", None)  # the caller decides how many tokens to generate

    suggested = take(["num_beams"])
    if suggested:
        suggested |= take(BEAMS)
    elif left.get("do_sample") is True:
        del left["do_sample"]
        suggested = {"do_sample": True, "temperature": 1.0, "top_k": 50} | take(SAMPLING)
        if not suggested["top_k"]:  # 0 means all tokens
            del suggested["top_k"]
        return needed, suggested, left
    without_effect = {"length_penalty", "early_stopping", *SAMPLING, *OTHER_SAMPLING}
    return needed, suggested, {key: value for key, value in left.items() if key not in without_effect}


def _tokens(left: dict[str, Any], model: Any) -> dict[str, Any]:
    """The options whose values are tokens. Their keys are removed from `left`."""
    size = getattr(model.config, "target_vocab_size", None) or model.config.vocab_size
    is_token = lambda value: type(value) is int and 0 <= value < size
    found: dict[str, Any] = {}
    # transformers forces the first token only after a single token, so not after the prompt of a decoder
    for key in ("forced_bos_token_id", "forced_eos_token_id")[not model.is_encoder_decoder :]:
        if is_token(left.get(key)):
            found[key] = left.pop(key)
    are_ids = lambda ids: isinstance(ids, list) and all(type(i) is int for i in ids)
    ends = left.get("eos_token_id", [])
    ends = ends if isinstance(ends, list) else [ends]
    if are_ids(ends):
        left.pop("eos_token_id", None)
    ends = list(filter(is_token, ends))
    if ends and ends != [model.config.eos_token_id]:
        found["eos_token_id"] = ends
    never: list[Any] = []
    bad = left.get("bad_words_ids")
    if isinstance(bad, list) and all(ids and are_ids(ids) for ids in bad):
        never = [ids[0] for ids in bad if len(ids) == 1 and ids[0] not in ends]
        left["bad_words_ids"] = [ids for ids in bad if len(ids) > 1]
        if not left["bad_words_ids"]:
            del left["bad_words_ids"]
    if are_ids(left.get("suppress_tokens")):
        never += left.pop("suppress_tokens")
    if suppressed := sorted(set(filter(is_token, never))):
        found["suppress_tokens"] = suppressed
    if not model.is_encoder_decoder or left.get("decoder_start_token_id") == model.decoder_start_token_id:
        left.pop("decoder_start_token_id", None)
    return found


def _fits(value: Any, default: Any) -> bool:
    """Whether a value has the same type as the default. An int is accepted as a float."""
    if isinstance(default, bool):
        return isinstance(value, bool) or value == "never"  # early_stopping may be "never"
    return type(value) is int or (type(value) is float and isinstance(default, float))


def write_generation(folder: Path, settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Write generation_config.json with the options, and with the special tokens in config.json."""
    tokens = {name: settings[name] for name in TOKENS if settings.get(name) is not None}
    write_json(folder / "generation_config.json", {**tokens, **options})
