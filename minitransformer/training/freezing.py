"""Freezes parameters whose names match patterns, so that they are not trained."""

from __future__ import annotations

from fnmatch import fnmatchcase

from minigrad import nn

from ..errors import UserError, counted, did_you_mean


def freeze(model: nn.Module, patterns: str) -> list[str]:
    """Freeze the parameters whose names match one of the comma-separated patterns. Return their names.

    Frozen parameters get no gradient and no optimizer state. Patterns are as in a shell, such as
    "embedding.*" or "encoder.layers.[0-3].*". Raises a UserError for a pattern that matches nothing, or if
    all parameters would be frozen.
    """
    names = [name for name, _ in model.named_parameters() if ".lora_" not in name]
    frozen: dict[str, None] = {}
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            similar = did_you_mean(pattern.rstrip(".*"), prefixes(names))
            raise UserError(
                f"freeze = {pattern!r} matches no parameter.{similar}\n"
                f"Use a pattern for names such as {', '.join(names[:3])}."
            )
        frozen |= dict.fromkeys(found)
    for name, parameter in model.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"freeze = {patterns!r} freezes all parameters.\nLeave some to train.")
    return list(frozen)


def prefixes(names: list[str]) -> list[str]:
    """The names of parameters and of the modules that contain them: "a" and "a.b" for "a.b"."""
    parts = [name.split(".") for name in names]
    return list(dict.fromkeys(".".join(each[:n]) for each in parts for n in range(1, len(each) + 1)))


def trained_line(model: nn.Module) -> str:
    """A message with the number of trained parameters, or an empty string if all are trained."""
    trained = sum(p.array.size for p in model.parameters() if p.requires_grad)
    total = sum(p.array.size for p in model.parameters())
    if trained == total:
        return ""
    return f"{trained:,} of {counted(total, 'parameter')} are trained ({trained / total:.1%})"
