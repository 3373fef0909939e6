"""Kernels: faster implementations of an op, registered on it from outside.

    @kernel(softmax, "numba")
    def softmax_by_rows(x, dim, dtype=None): ...

A kernel is a rule (see `op`): it takes the arrays and settings of the op, and returns its value and its
gradients as new arrays, never one array for two inputs. It returns None for arrays that it does not support.
A *set* of kernels is for the arrays on one kind of device. Arrays that no kernel of a set supports go to the
set that it falls back to, and finally to the op's own definition or rule. An op holds its kernels; neither
core nor the ops import any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

from .devices import kind_of
from .errors import OptionError
from .user_rules import is_user_defined

sets: dict[str, KernelSet] = {}  # by name
defaults: dict[str, KernelSet] = {}  # by kind of device: the set used by default


class KernelSet:
    """Kernels for arrays on a kind of device, "cpu" or "cuda".

    `load` imports the kernels, if that takes time; it is called when an op with kernels first gets arrays on
    such a device. `public_name` is the set's name in `minigrad.kernels.use`.
    """

    def __init__(
        self,
        name: str,
        device: str,
        load: Callable[[], None] = lambda: None,
        falls_back_to: str | None = None,
        is_default: bool = False,
        public_name: str | None = None,
    ) -> None:
        self.name = name
        self.device = device
        self.load = load
        self.public_name = public_name or name
        self.falls_back_to = falls_back_to
        sets[name] = self
        if is_default or device not in defaults:
            defaults[device] = self

    @cached_property
    def chain(self) -> tuple[KernelSet, ...]:
        """The set, and those that it falls back to."""
        return (self,) if self.falls_back_to is None else (self, *sets[self.falls_back_to].chain)

    def loaded(self) -> KernelSet:
        """The set, with all of its kernels registered."""
        for each in self.chain:
            each.load()
        return self

    def __repr__(self) -> str:
        return f"<kernels {self.public_name!r}>"


class _Active(threading.local):
    """Each thread's set for each kind of device, as `active.cpu`; None until it is chosen or first needed."""

    def __getattr__(self, device: str) -> None:
        return None


active = _Active()


def kernels_in_use(array: Any) -> KernelSet | None:
    """The set used for arrays such as this one."""
    return set_for(kind_of([array]))


def set_for(device: str) -> KernelSet | None:
    """The set used for arrays on a kind of device."""
    found = getattr(active, device)
    if found is None and device in defaults:
        found = defaults[device].loaded()
        setattr(active, device, found)
    return found


class TakesKernels:
    """The base class of what kernels can be registered on: ops and routines."""

    def __init__(self) -> None:
        self.kernels: dict[str | None, list[Callable]] = {}  # by set name; None: for all arrays
        self.in_order: dict[KernelSet | None, list[Callable]] = {}  # see `kernels_for`

    def checked(self, kernel: Callable) -> Callable:
        """The function to call instead of a kernel, which may check its results."""
        return kernel


def kernels_for(record: TakesKernels, device: str) -> list[Callable]:
    """The kernels for arrays on a kind of device, in the order in which they are tried."""
    in_use = set_for(device)
    found = record.in_order.get(in_use)
    if found is None:
        names = [*(each.name for each in (in_use.chain if in_use is not None else ())), None]
        found = record.in_order[in_use] = [each for name in names for each in record.kernels.get(name, ())]
    return found


def kernel(target: Any, of: str | None = None) -> Callable[[Callable], Callable]:
    """Decorate a kernel of `target`, an op (the function that users call) or a routine, to add it to a set.

    Without a set, a kernel is for all arrays, and is tried after the kernels of sets. Within a set, users'
    kernels are tried before the library's, whichever was registered first.
    """
    record = getattr(target, "op", target)
    if not isinstance(record, TakesKernels):
        name = getattr(target, "__name__", repr(target))
        raise OptionError(f"{name} is not an op, so it takes no kernels.\nPass an op, such as mg.softmax.")
    if of is not None and of not in sets:
        known = ", ".join(map(repr, sets))
        raise OptionError(f"there is no set of kernels {of!r}.\nPass one of {known}.")

    def register(function: Callable) -> Callable:
        own = record.kernels.setdefault(of, [])
        own.insert(0 if is_user_defined(function) else len(own), record.checked(function))
        record.in_order.clear()
        return function

    return register


class Routine(TakesKernels):
    """A function of arrays without a gradient that may have kernels, such as an optimizer's step.

    It decorates the definition. A kernel takes the same arguments, the first of which is an array or a list
    of arrays. It returns None if it does not support them, and anything else, also after working in place, if
    it does.
    """

    def __init__(self, definition: Callable) -> None:
        super().__init__()
        self.definition = definition
        update_wrapper(self, definition)

    def __call__(self, *arguments: Any) -> Any:
        first = arguments[0]
        for function in kernels_for(self, kind_of(first if type(first) is list else [first])):
            found = function(*arguments)
            if found is not None:
                return found
        return self.definition(*arguments)
