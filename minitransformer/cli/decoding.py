"""The decoding flags of `translate`, `generate`, `evaluate` and `compare` (docs/generation.md)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from ..errors import UserError, check_integer
from ..generation import GenerationConfig
from ..generation.request import MAX_BEAMS

OF_MODEL = {"repetition_penalty", "no_repeat_ngram_size"}  # an imported model may have other defaults
STOPPING: dict[str, bool | str] = {"true": True, "false": False, "never": "never"}


@dataclass(frozen=True)
class Search:
    """beam search and penalties"""

    num_beams: int = 1
    """Above 1: beam search with this many hypotheses per input."""
    length_penalty: float = 1.0
    """Beam search scores a text by its log-probability / length**length_penalty."""
    length_penalty_form: Literal["huggingface", "gnmt"] = "huggingface"
    """"gnmt": divide by ((5 + length) / 6)**length_penalty instead."""
    early_stopping: Literal["false", "true", "never"] = "false"
    """End beam search when better texts are unlikely, when there are enough, or when none can be better."""
    repetition_penalty: float | None = None
    """Above 1, tokens that already occurred become less likely (default: 1, or the imported model's)."""
    no_repeat_ngram_size: int | None = None
    """No n-gram of this many tokens occurs twice; 0: no limit (default: 0, or the imported model's)."""

    def options(self) -> dict[str, Any]:
        """Return the arguments of `generate` that differ from its defaults, after checking them."""
        for flag, value in self.changed_flags("length_penalty", "length_penalty_form", "early_stopping"):
            if self.num_beams == 1:
                raise UserError(
                    f"{flag} {value} has no effect without beam search.\n"
                    f"Search with several beams (--num-beams 4), or leave {flag} out."
                )
        values = {field.name: getattr(self, field.name) for field in fields(Search)}
        return changed_options(values | {"early_stopping": STOPPING[self.early_stopping]})

    def changed_flags(self, *names: str) -> list[tuple[str, Any]]:
        """The flag and the value of each of these fields that differs from its default."""
        chosen = [(f, getattr(self, f.name)) for f in fields(self) if f.name in names]
        return [(f"--{f.name.replace('_', '-')}", value) for f, value in chosen if value != f.default]


@dataclass(frozen=True)
class Decoding(Search):
    """decoding"""

    num_return_sequences: int = 1
    """Texts for each input: samples, or the best ones of a beam search."""
    temperature: float | None = None
    """Sampling temperature: below 1, likely tokens become more likely; above 1, less likely."""
    top_k: int | None = None
    """Sample from this many of the most likely tokens only."""
    top_p: float = 1.0
    """Sample from the most likely tokens whose probabilities sum to this."""
    min_p: float = 0.0
    """Sample from tokens with at least this fraction of the most likely token's probability."""
    seed: int | None = None
    """Seed of the sampling: the same seed gives the same sample (default: 0)."""

    def options(
        self, do_sample: bool = False, temperature: float = 1.0, how: str = "pass --do-sample"
    ) -> dict[str, Any]:
        """Return the arguments of `generate` that differ from its defaults. Raise a UserError for conflicts.

        `temperature` is the default for sampling; `how` says in errors how to enable sampling.
        """
        check_integer("num_beams", self.num_beams, 1, MAX_BEAMS + 1)
        how = "leave --num-beams out" if self.num_beams > 1 and not do_sample else how
        for flag, value in () if do_sample else self.changed_flags("temperature", "top_k", "top_p", "min_p"):
            raise UserError(
                f"{flag} {value} has no effect without sampling.\nTo sample, {how}; or leave {flag} out."
            )
        if do_sample and self.num_beams > 1:
            raise UserError(
                f"--num-beams {self.num_beams} and --do-sample exclude each other: beam search does not "
                f"sample.\nLeave one of them out."
            )
        if self.num_return_sequences > self.num_beams and not do_sample:
            raise UserError(
                f"--num-return-sequences {self.num_return_sequences} is more than --num-beams "
                f"{self.num_beams}.\nRaise --num-beams; or to sample, {how}."
            )
        values = super().options()
        names = ["num_return_sequences", "top_k", "top_p", "min_p", "seed"]
        values |= {name: getattr(self, name) for name in names}
        if do_sample:
            values |= {"do_sample": True, "seed": self.seed or 0}
        if do_sample or self.temperature is not None:
            values["temperature"] = temperature if self.temperature is None else self.temperature
        return changed_options(values)


def changed_options(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the defaults of `generate`, or override an imported model's.

    Raise a UserError if a value is invalid.
    """
    values = {name: value for name, value in values.items() if value is not None}
    config = GenerationConfig(**values)
    return {
        f.name: getattr(config, f.name)
        for f in fields(config)
        if getattr(config, f.name) != f.default or f.name in OF_MODEL & values.keys()
    }
