"""Import paths that programs have from before a module moved: each is that module, under both names."""

import sys
from collections.abc import Mapping
from types import ModuleType

from .core import (
    devices,
    errors,
    modes,
    namespace,
    node,
    observers,
    op,
    precision,
    random,
    tensor,
    versions,
)
from .ops import creation


def keep(paths: Mapping[str, ModuleType]) -> None:
    """Let each path, as it follows `minigrad.`, be that module."""
    for path, module in paths.items():
        sys.modules[f"{__package__}.{path}"] = module
        above, _, name = f"{__package__}.{path}".rpartition(".")
        if not hasattr(sys.modules[above], name):  # `minigrad.tensor` is the function
            setattr(sys.modules[above], name, module)


keep(
    {
        "autograd.observers": observers,
        "creation": creation,
        "devices": devices,
        "errors": errors,
        "modes": modes,
        "nodes": node,
        "ops.namespace": namespace,
        "ops.op": op,
        "precision": precision,
        "random": random,
        "tensor": tensor,
        "versions": versions,
    }
)
