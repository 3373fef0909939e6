"""Checks of the number and width of attention heads."""

from __future__ import annotations

from ..errors import UserError, check_integer


def head_sizes(
    d_model: int, num_heads: int, num_kv_heads: int | None = None, head_dim: int | None = None,
    names: tuple[str, str, str] = ("d_model", "num_heads", "num_kv_heads"),
) -> tuple[int, int]:  # fmt: skip
    """Return (num_kv_heads, head_dim), where None becomes num_heads and d_model / num_heads.

    Raises a UserError if the sizes do not divide each other. `names` are the arguments' names in errors.
    """
    width, heads, kv_heads = names
    check_integer(heads, num_heads, 1)
    if head_dim is not None:
        check_integer("head_dim", head_dim, 1, 2**63)
    elif d_model % num_heads:
        raise UserError(
            f"{width}={d_model} is not divisible by {heads}={num_heads}.\n"
            f"Choose a multiple of {num_heads}, or another number of heads."
        )
    if num_kv_heads is not None:
        check_integer(kv_heads, num_kv_heads, 1)
        if num_heads % num_kv_heads:
            raise UserError(
                f"{heads}={num_heads} is not divisible by {kv_heads}={num_kv_heads}.\n"
                f"A head of keys and values serves a group of heads: choose a divisor of {num_heads}."
            )
    return num_kv_heads or num_heads, head_dim or d_model // num_heads


def check_heads(
    config: object, width: str, heads: str, kv_heads: str | None = None, head_dim: int | None = None
) -> None:
    """Raise a UserError, with the names of the fields, if head sizes of a configuration do not fit."""
    groups = getattr(config, kv_heads) if kv_heads else None
    head_sizes(
        getattr(config, width), getattr(config, heads), groups, head_dim, (width, heads, kv_heads or "")
    )
