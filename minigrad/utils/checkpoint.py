"""torch.utils.checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import autograd

__all__ = ["checkpoint"]


def checkpoint(function: Callable, *args: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """`mg.autograd.checkpoint`, to which `use_reentrant` means nothing."""
    return autograd.checkpoint(function, *args, **kwargs)
