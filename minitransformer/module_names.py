"""Readable names of modules. They number layers from 1, whereas the paths of modules count from 0."""

from __future__ import annotations

from collections.abc import Sequence


def readable_name(path: str) -> str:
    """A module's readable name: `encoder layer 1 self-attention` for `encoder.layers.0.self_attention`."""
    return " ".join(_words(path))


def split_names(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The words that all readable names share, and the words that are left of each.

    For the cross-attention of each decoder layer: `decoder cross-attention`, and `layer 1`, `layer 2`, ...
    """
    parts = [_words(path) for path in paths]
    if len(parts) < 2:
        return " ".join(map(readable_name, paths)), [""] * len(paths)
    shortest = min(map(len, parts)) - 1
    same = lambda i: len({part[i] for part in parts}) == 1
    first = next((i for i in range(shortest) if not same(i)), shortest)
    last = next((i for i in range(shortest - first) if not same(-1 - i)), shortest - first)
    shared = [*parts[0][:first], *parts[0][len(parts[0]) - last :]]
    return " ".join(shared), [" ".join(part[first : len(part) - last]) for part in parts]


def _words(path: str) -> list[str]:
    """The parts of a readable name. A number and the word before it are one part, such as `layer 1`."""
    found: list[str] = []
    for part in path.split("."):
        if part.isdecimal():
            before = found.pop().removesuffix("s") if found else ""
            found.append(f"{before} {int(part) + 1}".strip())
        else:
            found.append(part.replace("_attention", "-attention").replace("_", " "))
    return found
