"""All ops, and all functions derived from ops, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op, OpInfo

ops: dict[str, Op] = {}
registry: dict[str, OpInfo] = {}  # derived functions, too
