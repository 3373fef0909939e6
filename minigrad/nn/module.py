"""Module: parameters, buffers and submodules under their names, as torch.nn.Module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..core.devices import as_array, on_cpu, on_device
from ..core.dtypes import default_float, is_floating
from ..core.error_context import FOREIGN_ERRORS, raise_with_context, raised_by_library
from ..core.errors import (
    ArgumentError,
    DtypeError,
    MinigradError,
    MissingPathError,
    OptionError,
    ShapeError,
    StateError,
)
from ..core.hooks import Handle
from ..core.modes import Scope, modes, no_grad
from ..core.tensor import Tensor, destination
from ..ops.checked import check_constructor, check_methods
from ..optim.optimizer import zero_gradients
from .hooks import BackwardHooks, Hook, add_hook, after_forward, before_forward


class Parameter(Tensor):
    """A tensor that a module learns."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.array if isinstance(data, Tensor) else data, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find in the state, and what of the state the module does not have.

    True if there is neither (PyTorch's is always true): `assert model.load_state_dict(state, strict=False)`.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __bool__(self) -> bool:
        return not (self.missing_keys or self.unexpected_keys)

    def __repr__(self) -> str:
        names = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return "<All keys matched successfully>" if self else f"IncompatibleKeys({names})"


class Module:
    """A piece of a network: assigning a Parameter or a Module, or registering a buffer, gives it a name.

    A name keeps its kind: what is neither of that kind nor None cannot be assigned to it. The values are
    plain attributes, stored in `__dict__` and nowhere else; `_kinds` says which names are parameters, buffers
    and submodules. `_parameters`, `_buffers` and `_modules` are dictionaries that read and write the
    attributes of one kind.
    """

    training: bool
    _kinds: dict[str, str]  # "parameter", "buffer" or "module", by name
    _transient: set[str]  # the names of buffers that are not part of the state
    _forward_hooks: dict[int, Hook]
    _forward_pre_hooks: dict[int, Hook]
    _backward_hooks: dict[int, Hook]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        check_constructor(cls)

    def __init__(self) -> None:
        self.__dict__.update(training=True, _kinds={}, _transient=set())
        self.__dict__.update(_forward_hooks={}, _forward_pre_hooks={}, _backward_hooks={})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward().\nDefine one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (modes.grad_enabled or modes.observers or self._forward_hooks or self._forward_pre_hooks):
            try:
                return self.forward(*args, **kwargs)  # nothing is recorded, so no node needs the scope
            except FOREIGN_ERRORS as error:
                self._raise_call_error(error, args, kwargs)
                raise
        if self._forward_pre_hooks:
            args, kwargs = before_forward(self, args, kwargs)
        backward = BackwardHooks(self) if self._backward_hooks and modes.grad_enabled else None
        if backward is not None:
            args = backward.around_inputs(args)
        outer = modes.scope
        scope = Scope()
        scope.part = weakref.ref(self)
        scope.parent = outer
        modes.scope = scope
        try:
            output = self.forward(*args, **kwargs)
        except FOREIGN_ERRORS as error:
            self._raise_call_error(error, args, kwargs)
            raise
        finally:
            modes.scope = outer
        if self._forward_hooks:
            output = after_forward(self, args, kwargs, output)
        return output if backward is None else backward.around_outputs(output)

    def _raise_call_error(self, error: Exception, args: tuple, kwargs: dict[str, Any]) -> None:
        """Say an error that NumPy or Python raised within the library in the user's terms."""
        if not isinstance(error, MinigradError) and raised_by_library(error):
            raise_with_context(type(self).__name__, args, kwargs, error, self.forward)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call hook(module, args, output) after each forward; what it returns replaces the output.

        `with_kwargs`: hook(module, args, kwargs, output). The handle that it returns has `remove()`.
        """
        return add_hook(self._forward_hooks, hook, with_kwargs, prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call hook(module, args) before each forward; what it returns replaces the positional arguments.

        `with_kwargs`: hook(module, args, kwargs), which returns None or (args, kwargs).
        """
        return add_hook(self._forward_pre_hooks, hook, with_kwargs, prepend)

    def register_full_backward_hook(
        self, hook: Callable[[Module, tuple, tuple], Any], prepend: bool = False
    ) -> Handle:
        """Call hook(module, grad_input, grad_output) once backward has the gradients of forward's inputs.

        Both are tuples, with None for no gradient; a returned value replaces grad_input.
        """
        return add_hook(self._backward_hooks, hook, False, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[[Module, tuple], Any], prepend: bool = False
    ) -> Handle:
        """Call hook(module, grad_output) before backward goes through; what it returns replaces them."""
        return add_hook(self._backward_hooks, hook, True, prepend)

    # ------------------------------------------------------------ names

    def __setattr__(self, name: str, value: Any) -> None:
        if "_kinds" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {name!r}.")
        kind = self._kind(name)
        if isinstance(value, Parameter):
            kind = "parameter"
        elif isinstance(value, Module) and kind != "parameter":
            kind = "module"
        if kind:
            self._check_kind(name, value, kind)
            self._set(name, value, kind)
        else:
            self._kinds.pop(name, None)
            self._transient.discard(name)
            super().__setattr__(name, value)  # which may be a property

    def _check_kind(self, name: str, value: Any, kind: str) -> None:
        """Raise if a value has the wrong type."""
        if value is not None and not isinstance(value, KINDS[kind]):
            what = "a plain tensor" if type(value) is Tensor else f"{type(value).__name__} {_brief(value)}"
            raise DtypeError(
                f"{name!r} is a {kind} of {type(self).__name__}, and cannot be set to {what}.\n"
                f"Assign {REPLACEMENTS[kind]}, or None."
            )

    def _kind(self, name: str) -> str:
        """What an attribute is: "parameter", "buffer", "module", or "" for anything else."""
        return self._kinds.get(name, "") if name in self.__dict__ else ""

    def _set(self, name: str, value: Any, kind: str) -> None:
        """Set an attribute, which keeps its position among the names as long as its kind stays the same."""
        if name not in self.__dict__ or self._kinds.get(name, "") != kind:
            self._kinds.pop(name, None)
            self._transient.discard(name)
        if kind:
            self._kinds[name] = kind
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._kinds.pop(name, None)
        self._transient.discard(name)

    def __copy__(self) -> Any:
        """The same members under the same names; what is assigned to one does not change the other."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _kinds=dict(self._kinds), _transient=set(self._transient))
        return twin

    def _check_name(self, name: str, kind: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(f"a name must be a string without dots, got {name!r}.\nChoose another name.")
        if hasattr(self, name) and self._kind(name) != kind:
            raise OptionError(
                f"{type(self).__name__} has something else named {name!r}.\nChoose another name."
            )

    def _register(self, name: str, value: Any, kind: str) -> None:
        self._check_name(name, kind)
        self._check_kind(name, value, kind)
        self._set(name, value, kind)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        self._register(name, param, "parameter")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is part of the state but not learned; not in `state_dict` unless persistent."""
        self._register(name, tensor, "buffer")
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        self._register(name, module, "module")

    register_module = add_module

    @property
    def _parameters(self) -> Members:
        return Members(self, "parameter")

    @property
    def _buffers(self) -> Members:
        return Members(self, "buffer")

    @property
    def _modules(self) -> Members:
        return Members(self, "module")

    def get_submodule(self, target: str) -> Module:
        """The module at a path, "encoder.layers.0"; this one at ""."""
        module = self
        for name in target.split(".") if target else ():
            submodules = {name: child for name, child in module._modules.items() if child is not None}
            if name not in submodules:
                raise MissingPathError(
                    f"{type(self).__name__} has no module {target!r}: there is no {name!r}.\n"
                    f"{type(module).__name__} has {_some(list(submodules))}."
                )
            module = submodules[name]
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a path, or add one, unless `strict`, to a module that is there.

        A shared module is replaced at this path alone.
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise OptionError("set_submodule needs a path, got ''.\nPass one of named_modules().")
        owner = self.get_submodule(path)
        if strict or hasattr(owner, name):
            self.get_submodule(target)
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path, "encoder.layers.0.weight"."""
        return self._get("parameter", target)

    def get_buffer(self, target: str) -> Tensor:
        return self._get("buffer", target)

    def _get(self, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        members = Members(module, kind)
        if members.get(name) is None:
            raise MissingPathError(
                f"{type(module).__name__} has no {kind} {name!r}.\nIt has {_some(list(members))}."
            )
        return members[name]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it by path; one that has two paths comes once, under its first.

        Those in `memo` are left out, and the others are added to it.
        """
        seen = set() if memo is None else memo
        found: list[tuple[str, Module]] = []
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if not remove_duplicate or module not in seen:
                seen.add(module)
                found.append((path, module))
                values = module.__dict__
                for name, kind in reversed(module._kinds.items()):
                    if kind == "module" and values.get(name) is not None:
                        stack.append((f"{path}.{name}" if path else name, values[name]))
        return iter(found)

    def modules(self) -> Iterator[Module]:
        return map(itemgetter(1), self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules right below this one by name; one that has two names comes once, under its first."""
        values = self.__dict__
        found = dict[Module, str]()
        for name, kind in self._kinds.items():
            if kind == "module" and values.get(name) is not None:
                found.setdefault(values[name], name)
        return iter([(name, module) for module, name in found.items()])

    def children(self) -> Iterator[Module]:
        return map(itemgetter(1), self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters by path; one that two modules share comes once, under its first path.

        Without `recurse`, only this module's own.
        """
        return self._named_tensors("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return map(itemgetter(1), self._named_tensors("parameter", "", recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named_tensors("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return map(itemgetter(1), self._named_tensors("buffer", "", recurse))

    def _named_tensors(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set[Tensor]()
        found = list[tuple[str, Any]]()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            values = module.__dict__
            for name, of in module._kinds.items():
                tensor = values.get(name) if of == kind else None
                if tensor is not None and not (remove_duplicate and tensor in seen):
                    seen.add(tensor)
                    found.append((f"{path}.{name}" if path else name, tensor))
        return iter(found)

    def num_parameters(self) -> int:
        """The number of learned numbers, each counted once."""
        return sum(p.numel() for p in self.parameters())

    # ------------------------------------------------------------ state

    def _state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """The parameters and persistent buffers by path; one that has two paths comes under both."""
        for members in (self._parameters, self._buffers):
            for name, tensor in members.items():
                if tensor is not None and name not in self._transient:
                    yield prefix + name, tensor
        for name, module in self._modules.items():
            if module is not None:
                yield from module._state(f"{prefix}{name}.")

    def state_dict(self, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and buffers by path, sharing memory with the module; `keep_vars`: they themselves."""
        return {name: tensor if keep_vars else tensor.detach() for name, tensor in self._state(prefix)}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into parameters and buffers of the same paths; returns (missing_keys, unexpected_keys).

        With `strict`, either is an error. Everything is checked before anything changes. `assign`: parameters
        and buffers become the values themselves, of their dtype and on their device. A tensor with several
        paths stays one tensor, also with `assign`; different values for it are an error.
        """
        if not isinstance(state_dict, Mapping):
            raise DtypeError(
                f"a state is a dictionary of tensors by path, got {type(state_dict).__name__}.\n"
                f"Pass what state_dict() gave, or mg.load_file(path)."
            )
        own = dict(self._state())
        missing = [k for k in own if k not in state_dict]
        unknown = [k for k in state_dict if k not in own]
        if strict and (missing or unknown):
            raise StateError(
                f"the state does not fit {type(self).__name__}: missing {_some(missing)}, "
                f"unknown {_some(unknown)}.\nLoad the state of the same model, or pass strict=False."
            )
        loaded = {name: state_dict[name] for name in own if name in state_dict}
        values = {name: as_array(x.array if isinstance(x, Tensor) else x) for name, x in loaded.items()}
        for name, value in values.items():
            mine = own[name]
            if value.shape != mine.shape or not np.can_cast(value.dtype, mine.dtype, "same_kind"):
                raise ShapeError(
                    f"{name} is {mine.dtype}{list(mine.shape)} in the model, "
                    f"{value.dtype}{list(value.shape)} in the state.\nLoad the state of the same model."
                )
        paths: dict[Tensor, list[str]] = {}  # of each tensor, of which a tied one has several
        for name, mine in own.items():
            paths.setdefault(mine, []).append(name)
        for mine, names in paths.items():
            self._check_tied(mine, {name: values[name] for name in names if name in values})
        with no_grad():
            for mine, names in paths.items():
                value = next((values[name] for name in names if name in values), None)
                if value is None:
                    continue
                if not assign:
                    mine.copy_(value)
                    continue
                new = type(mine)(value, mine.requires_grad)
                for name in names:
                    owner, _, last = name.rpartition(".")
                    setattr(self.get_submodule(owner), last, new)
        return IncompatibleKeys(missing, unknown)

    def _check_tied(self, mine: Tensor, values: dict[str, Any]) -> None:
        """Raise if the names of one tensor have different values."""
        first = next(iter(values), "")
        for name in list(values)[1:]:
            a, b = (on_cpu(values[key].astype(mine.dtype)) for key in (first, name))
            if not np.array_equal(a, b, equal_nan=True):
                raise StateError(
                    f"{first} and {name} are one tensor in {type(self).__name__}, and have different values "
                    f"in the state.\nPass one of them, with strict=False, or untie them in the module."
                )

    # ------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Module:
        if not isinstance(mode, bool):
            raise OptionError(f"train() takes True or False, got {mode!r}.\nUse eval() for evaluation.")
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        zero_gradients(self.parameters(), set_to_none)

    def to(
        self, *targets: Any, dtype: Any = None, device: str | None = None, non_blocking: bool = False
    ) -> Module:
        """Convert floating parameters and buffers to a dtype, in place; or move all to a device.

        Create the optimizer afterwards: its state is on the parameters' device. Copies to a GPU do not wait
        for it in either case of `non_blocking`.
        """
        dtype, device = destination(targets, dtype, device)
        if not is_floating(dtype or default_float):
            raise DtypeError(
                f"a module's parameters must be floating-point, got {dtype}.\nPass a floating dtype."
            )
        for tensor in (*self.parameters(), *self.buffers()):
            if device is not None:
                tensor.array = on_device(tensor.array, device)
                tensor.grad = None if tensor.grad is None else tensor.grad.to(device)
            if dtype is not None and tensor.is_floating_point():
                tensor.array = tensor.array.astype(dtype)
                tensor.grad = None if tensor.grad is None else tensor.grad.to(dtype)
        return self

    def cpu(self) -> Module:
        return self.to("cpu")

    def cuda(self, device: int | str | None = None) -> Module:
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def type(self, dst_type: Any) -> Module:
        return self.to(dtype=dst_type)

    def double(self) -> Module:
        return self.to("float64")

    def float(self) -> Module:
        return self.to("float32")

    def half(self) -> Module:
        return self.to("float16")

    def bfloat16(self) -> Module:
        return self.to("bfloat16")

    def apply(self, function: Callable[[Module], None]) -> Module:
        """Call `function` with every module below this one, then with this one.

        A module with two paths gets it twice where they lead through different modules.
        """
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def extra_repr(self) -> str:
        return ""

    def _lines(self) -> Iterator[str]:
        """The text of each module in this one."""
        return (f"({name}): {module!r}" for name, module in self._modules.items())

    def __repr__(self) -> str:
        lines = [line.replace("\n", "\n  ") for line in self._lines()]
        extra = self.extra_repr()
        if lines and extra:
            lines = [extra.replace("\n", "\n  "), *lines]
        body = "".join(f"\n  {line}" for line in lines) + "\n" if lines else extra
        return f"{type(self).__name__}({body})"


KINDS: dict[str, type] = {"parameter": Parameter, "buffer": Tensor, "module": Module}
REPLACEMENTS = {"parameter": "nn.Parameter(tensor)", "buffer": "a tensor", "module": "a module"}


class Members(MutableMapping[str, Any]):
    """The parameters, buffers or submodules of a module by name: a dictionary over its attributes."""

    def __init__(self, module: Module, kind: str) -> None:
        self.module = module
        self.kind = kind

    def _now(self) -> dict[str, Any]:
        values = self.module.__dict__
        return {
            name: values[name]
            for name, kind in self.module._kinds.items()
            if kind == self.kind and name in values
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> ItemsView[str, Any]:
        return self._now().items()

    def values(self) -> ValuesView[Any]:
        return self._now().values()

    def __getitem__(self, name: str) -> Any:
        if self.module._kind(name) != self.kind:
            raise KeyError(name)
        return self.module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.module._register(name, value, self.kind)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self.module, name)

    def __repr__(self) -> str:
        return repr(dict(self))


def _brief(value: Any) -> str:
    """A number, or the shape of an array."""
    return f"of shape {value.shape}" if hasattr(value, "shape") else repr(value)[:40]


def _some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:3]) or "none"
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


check_methods(Parameter, ["__init__"])
check_methods(
    Module,
    [
        "apply",
        "get_buffer",
        "get_parameter",
        "get_submodule",
        "load_state_dict",
        "named_parameters",
        "register_buffer",
        "requires_grad_",
        "set_submodule",
        "state_dict",
        "train",
        "zero_grad",
    ],
)
