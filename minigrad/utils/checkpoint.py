"""Checkpointing under the name of torch.utils.checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import autograd

__all__ = ["checkpoint"]


def checkpoint(function: Callable, *args: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Call `mg.autograd.checkpoint`; `use_reentrant` has no effect."""
    return autograd.checkpoint(function, *args, **kwargs)
