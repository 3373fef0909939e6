"""Import paths that programs have from before a module moved: each is that module, under both names."""

import sys
from types import ModuleType

from . import breadth
from .breadth import linalg, special
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

PATHS: dict[str, ModuleType] = {
    "autograd.observers": observers,
    "creation": creation,
    "devices": devices,
    "errors": errors,
    "linalg": linalg,
    "modes": modes,
    "nodes": node,
    "ops.extra": breadth,
    "ops.namespace": namespace,
    "ops.op": op,
    "precision": precision,
    "random": random,
    "special": special,
    "tensor": tensor,
    "versions": versions,
}

for path, module in PATHS.items():
    sys.modules[f"{__package__}.{path}"] = module
    above, _, name = f"{__package__}.{path}".rpartition(".")
    if not hasattr(sys.modules[above], name):  # `minigrad.tensor` is the function
        setattr(sys.modules[above], name, module)
