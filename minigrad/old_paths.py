"""Import paths from before modules moved or were split."""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .core import (
    closures,
    composites,
    devices,
    dtypes,
    errors,
    frames,
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
from .ops import creation, strides
from .optim import grad_scaler


def _merge(*parts: ModuleType, **names: Any) -> ModuleType:
    """Return one module with the names of several, and with `names`."""
    module = ModuleType(parts[0].__name__, parts[0].__doc__)
    for part in parts:
        vars(module).update({name: x for name, x in vars(part).items() if not name.startswith("__")})
    vars(module).update(names)
    return module


def keep(paths: Mapping[str, ModuleType]) -> None:
    """Register each module under a path below `minigrad`."""
    for path, module in paths.items():
        sys.modules[f"{__package__}.{path}"] = module
        above, _, name = f"{__package__}.{path}".rpartition(".")
        if not hasattr(sys.modules[above], name):  # `minigrad.tensor` is the function
            setattr(sys.modules[above], name, module)


keep(
    {
        "autograd.observers": observers,
        "creation": creation,
        "devices": _merge(dtypes, devices, gpu=devices.backends.get("cuda")),
        "errors": errors,
        "modes": modes,
        "nodes": node,
        "ops.namespace": namespace,
        "ops.op": _merge(op, composites),
        "precision": _merge(precision, grad_scaler),
        "random": random,
        "tensor": tensor,
        "versions": _merge(versions, frames, closures, strides),
    }
)
