"""Trees: nested dicts, lists and tuples, flattened into leaves and rebuilt from new ones (jax.tree)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import ArgumentError


def flatten(tree: Any, path: str = "", around: tuple[Any, ...] = ()) -> list[tuple[str, Any]]:
    """Return (path, leaf) of every leaf, in order; a path is `params["w"]`, `params[0]` or `params.name`.

    None has no leaves.
    """
    if tree is None:
        return []
    if isinstance(tree, dict):
        branches = [(f"{path}[{_quoted(key)}]", value) for key, value in tree.items()]
    elif _is_named(tree):
        branches = [(f"{path}.{name}", value) for name, value in zip(tree._fields, tree, strict=True)]
    elif isinstance(tree, list | tuple):
        branches = [(f"{path}[{i}]", value) for i, value in enumerate(tree)]
    else:
        return [(path, tree)]
    if any(tree is outer for outer in around):
        raise ArgumentError(f"{path} is a {type(tree).__name__} that contains itself.\nPass one that ends.")
    return [leaf for place, value in branches for leaf in flatten(value, place, (*around, tree))]


def leaves(tree: Any) -> list[Any]:
    return [leaf for _, leaf in flatten(tree)]


def fill(tree: Any, values: list[Any]) -> Any:
    """A tree of the same structure with `values`, in the order of `flatten`, at its leaves."""
    remaining = iter(values)
    return map_leaves(lambda _: next(remaining), tree)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with each leaf replaced by function(leaf)."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if _is_named(tree):
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(map_leaves(function, value) for value in tree)
    return function(tree)


def structure(tree: Any) -> str:
    """The tree as a string with `*` for each leaf, equal for trees of the same structure."""
    if tree is None:
        return "None"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {structure(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list | tuple):
        inside = ", ".join(structure(value) for value in tree)
        named = type(tree).__name__ if _is_named(tree) else ""
        return f"[{inside}]" if isinstance(tree, list) else f"{named}({inside})"
    return "*"


def _is_named(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def _quoted(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) else repr(key)
