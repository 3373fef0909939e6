"""Other libraries doing the same work, one file each, as their own users would write it, and well.

A peer's module describes it (`LABEL`, `PACKAGES` to install, `COMPILERS` of which it needs one) and has a
function for each kind of work that it can do, which returns a training step; `CANNOT` says why others are
missing.

    step = peer.decoder(work, weights)    # or phrasebook, recurrent, mlp, ...; weights by our names
    step()                                # forward, backward, AdamW, zero_grad, on the next batch
    step.first()                          # loss and gradients of the first batch, without dropout
    step.loss()                           # loss of the first batch now

On a GPU (`decoder(work, weights, "cuda")`, for peers in `ON_GPU`) a step has two more functions:

    step.wait()                           # until the GPU has finished
    step.peak()                           # the memory that steps need there
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from typing import Any, Protocol

from ..works import MLP, Decoder, First, Phrasebook, Recurrent, Work

PEERS = ("torch", "compile", "reduce-overhead", "jax")
ON_CPU = ("torch", "compile", "jax")  # that `steps` compares with
ON_GPU = PEERS[:3]


class Step(Protocol):
    """A training step, and the values that show that it does the same work as another library's."""

    def __call__(self) -> None: ...
    def first(self) -> First: ...
    def loss(self) -> float: ...


def peer(name: str) -> Any:
    """The peer's module, which imports the library only when it is used."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def missing(name: str) -> str | None:
    """A note about a peer that is not installed, or finds no compiler; None if it can run."""
    module = peer(name)
    lacking = [p for p in module.PACKAGES if importlib.util.find_spec(p.partition("=")[0]) is None]
    if lacking:
        return f"{module.LABEL} is not installed: pip install {' '.join(lacking)}"
    compilers = getattr(module, "COMPILERS", ())
    if compilers and not any(map(shutil.which, compilers)):
        return f"{module.LABEL} needs {' or '.join(compilers)}, and there is none: apt install {compilers[0]}"
    return None


KINDS = {Decoder: "decoder", Phrasebook: "phrasebook", Recurrent: "recurrent", MLP: "mlp"}


def step_of(name: str, work: Work, weights: Any, *device: str) -> Step | None:
    """The peer's training step of `work`, or None if it cannot do it."""
    make = getattr(peer(name), KINDS[type(work)], None)
    return None if make is None else make(work, weights, *device)


def settings_of(name: str, threads: int) -> dict[str, str]:
    """The environment variables for a library's process.

    minigrad, which other libraries' processes import for the works, must not change their allocator.
    """
    module = peer(name)
    settings = module.settings(threads) if hasattr(module, "settings") else {}
    return settings if name == "ours" else {"GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "")} | settings
