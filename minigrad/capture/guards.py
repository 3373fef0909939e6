"""What has to be as it was when a step was recorded for its recording to be replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from operator import attrgetter, is_
from typing import Any

from ..nn.module import Module
from ..tensor import Tensor
from .replacing import replaced

Guard = Callable[[], bool]
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
PLAIN = (int, float, str, type(None))


def is_still(thing: Any, name: str, value: Any) -> bool:
    """Whether an attribute is what it was."""
    return getattr(thing, name) is value


def same_leaves(leaves: list[Tensor]) -> list[Guard]:
    """These have the arrays that they have now, and require gradients as they do now."""
    needs, array = attrgetter("_requires_grad"), attrgetter("array")
    trained, frozen = [x for x in leaves if needs(x)], [x for x in leaves if not needs(x)]
    arrays = list(map(array, leaves))
    return [
        lambda: all(map(needs, trained)) and not any(map(needs, frozen)),
        lambda: all(map(is_, map(array, leaves), arrays)),
    ]


def same_modes(modules: Iterable[Module]) -> Guard:
    """These are in training or in evaluation as they are now."""
    modules, mode = list(modules), attrgetter("training")
    modes = list(map(mode, modules))
    return lambda: list(map(mode, modules)) == modes


def same_tensors(modules: Iterable[Module]) -> Guard:
    """These have the parameters and buffers that they have now."""
    return _same_members(list(modules), ("parameter", "buffer"))


def same_parts(modules: Iterable[Module]) -> Guard:
    """These have the submodules and hooks that they have now."""
    modules = list(modules)
    are_members = _same_members(modules, ("module",))
    attributes = [vars(module) for module in modules]
    counted = [of[name] for of in attributes for name in ("_kinds", *HOOKS)]
    counts = list(map(len, counted))
    hooks = [(of[name], tuple(of[name])) for of in attributes for name in HOOKS if of[name]]
    return lambda: (
        list(map(len, counted)) == counts
        and are_members()
        and all(tuple(now) == handles for now, handles in hooks)
    )


def _same_members(modules: list[Module], kinds: tuple[str, ...]) -> Guard:
    found = [(vars(m), name) for m in modules for name, kind in vars(m)["_kinds"].items() if kind in kinds]
    owners, names = [of for of, _ in found], [name for _, name in found]
    members = list(map(dict.get, owners, names))
    return lambda: all(map(is_, map(dict.get, owners, names), members))


def same_settings(modules: Iterable[Module]) -> Guard:
    """These have the settings that they have now, such as `p` and `eps`: plain attributes, also a user's own.

    What a step itself has set, such as the number of its calls, no replay changes.
    """
    found = [(vars(module), name) for module in modules for name, x in vars(module).items() if _is_plain(x)]
    owners, names = [of for of, _ in found], [name for _, name in found]
    settings = list(map(dict.get, owners, names))
    return lambda: list(map(dict.get, owners, names)) == settings


def _is_plain(x: Any) -> bool:
    return isinstance(x, PLAIN) or (isinstance(x, tuple) and all(map(_is_plain, x)))


def all_below(modules: Iterable[Module]) -> list[Module]:
    """These and their submodules: a ModuleList is not called itself."""
    return list(dict.fromkeys(below for module in modules for below in module.modules()))


def tensors_of(modules: Iterable[Module]) -> list[Tensor]:
    """The parameters and buffers of these themselves."""
    members = [vars(module).get(name) for module in modules for name in vars(module)["_kinds"]]
    return [x for x in members if isinstance(x, Tensor)]


def modules_noted(noted: dict[Module, None]) -> AbstractContextManager[None]:
    """Within it `noted` gets each module that this thread calls."""
    thread = threading.get_ident()

    def call(original: Callable, module: Module, *args: Any, **settings: Any) -> Any:
        noted[module] = None
        return original(module, *args, **settings)

    return replaced([(Module, "__call__", call)], lambda: threading.get_ident() == thread)
