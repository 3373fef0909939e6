"""Calling a module with other parameters than its own (torch.func.functional_call)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import DtypeError, OptionError, StateError
from ...core.tensor import Tensor
from ..module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call module(*args, **kwargs) with tensors from a dictionary in place of its parameters and buffers.

    A tuple of dictionaries is merged. Gradients go to the dictionary's tensors. If `tie_weights` is True, a
    parameter with several paths is replaced at all of them, and two different tensors for it are an error.
    If `strict` is True, the dictionary must have exactly the module's paths. (torch.func.functional_call)
    """
    several = isinstance(parameters_and_buffers, tuple | list)
    parts: Any = parameters_and_buffers if several else [parameters_and_buffers]
    if not isinstance(module, Module) or not all(isinstance(part, Mapping) for part in parts):
        raise DtypeError(
            f"functional_call needs a module and a dictionary, got {type(module).__name__} and "
            f"{type(parameters_and_buffers).__name__}.\nPass, for example, dict(module.named_parameters())."
        )
    counts = Counter(name for part in parts for name in part)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise OptionError(
            f"functional_call: {twice} are in more than one dictionary.\nPass one tensor for each path."
        )
    replacements = {name: x for part in parts for name, x in part.items()}
    places = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    unknown = [name for name in replacements if name not in places]
    missing = [name for name in places if name not in replacements] if strict else []
    if (unknown and strict) or missing:
        raise StateError(
            f"functional_call: missing {missing or 'none'}, unexpected {unknown or 'none'}.\n"
            f"Pass tensors for the module's parameters and buffers."
        )
    new_tensors = {name: x for name, x in replacements.items() if name in places}
    _check_tied(module, places, new_tensors, tie_weights)
    if tie_weights:
        by_tensor = {places[name]: x for name, x in new_tensors.items()}
        new_tensors = {name: by_tensor[own] for name, own in places.items() if own in by_tensor}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        _set_tensors(module, new_tensors)
        return module(*args, **(kwargs or {}))
    finally:
        _set_tensors(module, {name: places[name] for name in new_tensors})


def _check_tied(
    module: Module, places: Mapping[str, Tensor], new_tensors: Mapping[str, Tensor], tie_weights: bool
) -> None:
    """Raise an error for two tensors for one parameter or, without `tie_weights`, for one attribute."""
    first: dict[Any, str] = {}
    for name, x in new_tensors.items():
        owner, _, last = name.rpartition(".")
        key: Any = places[name] if tie_weights else (module.get_submodule(owner), last)
        other = first.setdefault(key, name)
        if not _are_same(new_tensors[other], x):
            kind, untie = ("parameter", ", or tie_weights=False") if tie_weights else ("attribute", "")
            raise OptionError(
                f"functional_call: {other} and {name} are one {kind} of {type(module).__name__}, "
                f"but got two tensors.\nPass one of them, or the same tensor twice{untie}."
            )


def _are_same(a: Tensor, b: Tensor) -> bool:
    """Return whether a and b are the same tensor, or detached tensors that share an array.

    `state_dict` returns the latter for tied weights.
    """
    return a is b or (a.array is b.array and not (a.requires_grad or b.requires_grad))


def _set_tensors(module: Module, tensors: Mapping[str, Tensor]) -> None:
    """Set parameters and buffers by path, without the checks of `setattr`."""
    for path, x in tensors.items():
        owner, _, name = path.rpartition(".")
        vars(module.get_submodule(owner))[name] = x
