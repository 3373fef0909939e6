"""The number and width of attention heads, checked."""

from __future__ import annotations

from ..errors import UserError, check_integer


def head_sizes(
    d_model: int, num_heads: int, num_kv_heads: int | None = None, head_dim: int | None = None,
    names: tuple[str, str, str] = ("d_model", "num_heads", "num_kv_heads"),
) -> tuple[int, int]:  # fmt: skip
    """(num_kv_heads, head_dim), checked; by default as many as heads, and d_model / num_heads."""
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
    """`head_sizes` with the names of a configuration's fields in its errors."""
    groups = getattr(config, kv_heads) if kv_heads else None
    head_sizes(
        getattr(config, width), getattr(config, heads), groups, head_dim, (width, heads, kv_heads or "")
    )
