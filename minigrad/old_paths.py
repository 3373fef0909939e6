"""Import paths that programs have from before a module moved: each is that module, under both names."""

import sys
from collections.abc import Mapping
from types import ModuleType

from .core import (
    devices,
    dtypes,
    errors,
    modes,
    namespace,
    node,
    observers,
    op,
    precision,
    random,
    samplers,
    tensor,
    versions,
)
from .ops import creation


def _devices() -> ModuleType:
    """What is now `core.dtypes` and `core.devices`; `gpu` is the backend of GPUs, if one is registered."""
    module = ModuleType("minigrad.devices", devices.__doc__)
    for part in (dtypes, devices):
        vars(module).update({name: x for name, x in vars(part).items() if not name.startswith("__")})
    vars(module)["gpu"] = devices.backends.get("cuda")
    return module


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
        "devices": _devices(),
        "errors": errors,
        "modes": modes,
        "nodes": node,
        "ops.namespace": namespace,
        "ops.op": op,
        "ops.samplers": samplers,
        "precision": precision,
        "random": random,
        "tensor": tensor,
        "versions": versions,
    }
)
