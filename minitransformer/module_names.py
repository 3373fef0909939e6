"""Names of modules for readers: layers and heads count from 1; Python's paths and indices from 0."""

from __future__ import annotations

from collections.abc import Sequence


def readable_name(path: str) -> str:
    """`encoder layer 1 self-attention`, of the path `encoder.layers.0.self_attention`."""
    return " ".join(_words(path))


def split_names(paths: Sequence[str]) -> tuple[str, list[str]]:
    """What the readable names share, `decoder cross-attention`, and where each differs, `layer 1`."""
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
    """The parts of a readable name; the number of a layer belongs to the word before."""
    found: list[str] = []
    for part in path.split("."):
        if part.isdecimal():
            before = found.pop().removesuffix("s") if found else ""
            found.append(f"{before} {int(part) + 1}".strip())
        else:
            found.append(part.replace("_attention", "-attention").replace("_", " "))
    return found
