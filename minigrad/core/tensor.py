"""Tensor: an array, its gradient, and the operation that computed it.

The class holds state and does conversions. Operations are bound as methods elsewhere (see `methods`): core
binds arithmetic and backward, other parts bind theirs. A device is an `ArrayBackend` (see `devices`), whose
library computes with the arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import devices, printing
from .devices import (
    CPU,
    array_module,
    check_device,
    device_of,
    is_array,
    is_device_name,
    load_library_of,
    on_cpu,
    on_device,
    to_device_of,
)
from .dtypes import (
    DTYPES,
    as_dtype,
    bfloat16,
    check_convertible,
    default_float,
    float32,
    is_dtype,
    is_floating,
)
from .errors import DtypeError, GraphError, MinigradError, OptionError, RangeError, ShapeError
from .frames import warn
from .modes import modes
from .versions import VersionCounter, share_version, version_of

if TYPE_CHECKING:
    from .bound import Methods  # bound.pyi lists the operations, which are bound elsewhere
else:
    Methods = object


RETAINS_GRAD = sys.maxsize  # the number of retain_grad's hook, which runs after all others


class Tensor(Methods):
    """An n-dimensional array that knows how it was computed.

    `array` is the array (NumPy's, or CuPy's on a GPU), `grad` the gradient from backward() (a Tensor or None)
    and `node` the operation that computed the tensor: a `Node`, or a `ResultEdge` if it has several results
    (None for a leaf).

    >>> x = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = {  # with docstrings
        "__weakref__": None,
        "_grad": None,
        "_requires_grad": None,
        "array": "The array: NumPy's, or CuPy's on a GPU.",
        "hooks": "The functions of `register_hook` of a leaf, by number, or None; others are on the node.",
        "node": "The operation that computed the tensor, a Node or ResultEdge; None for a leaf.",
        "version": "The version counter, which changes in place increase.",
    }

    array: np.ndarray
    _grad: Tensor | None
    _requires_grad: bool
    node: Any
    version: VersionCounter | None
    hooks: dict[int, Callable] | None
    __array_ufunc__: Any  # ndarray * Tensor, np.exp(Tensor): see more/numpy_functions.py
    __array_function__: Any
    _nested: Callable[[Any, Any, Any], Tensor]  # stacks nested lists of tensors: see ops/shaping.py
    _sum_to: Callable[[Any], Tensor]  # sums over broadcast axes: see arithmetic.py

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        if type(data) is np.ndarray and data.dtype in DTYPES:
            self.array = data
        else:
            if isinstance(data, Tensor) and type(self) is Tensor:
                _warn_unless_constant(data, "mg.Tensor(x)", "x itself")
            self.array = _new_array(data, None, copy=False)
        self._grad = self.node = self.version = self.hooks = None
        self._requires_grad = False
        if requires_grad:
            if type(requires_grad) is int:
                raise OptionError(
                    f"requires_grad must be a flag, got {requires_grad}.\nFor sizes, use mg.empty(2, 3)."
                )
            self.requires_grad_()

    # ------------------------------------------------------------ what it is

    shape: devices.Size = property(  # type: ignore[assignment]
        lambda x: devices.Size(x.array.shape), doc="The sizes of all axes."
    )
    ndim: int = property(attrgetter("array.ndim"), doc="The number of axes.")  # type: ignore[assignment]
    dtype: np.dtype = property(  # type: ignore[assignment]
        attrgetter("array.dtype"), doc="The type of the elements, a `np.dtype`."
    )

    @property
    def device(self) -> devices.Device:
        """The device of the array: "cpu", or "cuda:0" for the first GPU."""
        return device_of(self.array)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation computed the tensor."""
        return self.node is None

    @property
    def grad_fn(self) -> Any:
        """PyTorch's name for `node`."""
        return self.node

    def size(self, dim: int | None = None) -> Any:
        """The sizes of all axes, or the size of one."""
        if dim is None:
            return self.shape
        if not -self.array.ndim <= dim < self.array.ndim:
            raise RangeError(
                f"axis {dim} of a tensor of shape {self.shape}.\nAxes count from 0, or from -1 at the end."
            )
        return self.array.shape[dim]

    def dim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self.array.size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.array.nbytes

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating."""
        return is_floating(self.array.dtype)

    def __len__(self) -> int:
        if not self.array.ndim:
            raise DtypeError("a 0-d tensor has no length.\nUse .item() for its number.")
        return len(self.array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.ndim:
            raise DtypeError("a 0-d tensor cannot be iterated over.\nUse .item() for its number.")
        return iter(self.unbind(0))  # bound by `ops`

    __hash__ = object.__hash__  # by identity, as leaves are keys in the backward pass

    def __bool__(self) -> bool:
        return bool(self._number("bool(tensor)"))

    def __int__(self) -> int:
        return int(self._number("int(tensor)"))

    def __float__(self) -> float:
        return float(self._number("float(tensor)"))

    def __index__(self) -> int:
        if self.array.dtype.kind not in "iu":
            raise DtypeError(f"an index must be an integer tensor, got {self.dtype}.\nUse .long().")
        return int(self._number("a tensor as an index"))

    def __format__(self, spec: str) -> str:
        """Format a one-element tensor as its number, f"{loss:.3f}", and a 0-d tensor also in f"{loss}"."""
        return format(self._number("printing a tensor"), spec) if spec or not self.ndim else repr(self)

    def __deepcopy__(self, memo: dict) -> Tensor:
        self._check_leaf("deep-copied")
        copy = memo[id(self)] = _rebuilt(type(self), self.array.copy(), self.requires_grad)
        copy._grad = None if self._grad is None else Tensor(self._grad.array.copy())
        if own := getattr(self, "__dict__", None):  # a subclass has attributes
            vars(copy).update(deepcopy(own, memo))
        return copy

    def __copy__(self) -> Tensor:
        """A tensor that shares the memory, without a gradient."""
        self._check_leaf("copied")
        copy = _rebuilt(type(self), self.array, self.requires_grad)
        copy.version = version_of(self)
        if own := getattr(self, "__dict__", None):
            vars(copy).update(own)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Support pickle, and so multiprocessing, without the gradient; use `mg.save_file` for files."""
        self._check_leaf("pickled")
        own = getattr(self, "__dict__", None)
        return _rebuilt, (type(self), self.array, self.requires_grad), own or None

    def _check_leaf(self, what: str) -> None:
        if self.node is not None:
            raise GraphError(
                f"only a leaf can be {what}, but this tensor was computed by {self.node.op.name}.\n"
                f"Use .detach() or .clone()."
            )

    def __repr__(self) -> str:
        place = "" if self.device == "cpu" else f"device='{self.device}'"
        array = on_cpu(self.array, "printing a tensor")
        if self.node is not None:
            return printing.text(array, place, f"grad_fn=<{self.node.op.name}>")
        return printing.text(array, place, "requires_grad=True" if self.requires_grad else "")

    # ------------------------------------------------------------ out of the library

    def item(self) -> Any:
        """The number in a tensor of one element, as a Python number.

        >>> mg.tensor([1.0, 2.0]).sum().item()
        3.0
        """
        return self._number("item()")

    def _number(self, operation: str) -> Any:
        """The number in a tensor of one element, for `operation`."""
        if self.array.size != 1:
            raise ShapeError(
                f"{operation} needs a tensor of one element, got shape {self.shape}.\n"
                f"Use .tolist(), index it, or reduce it (.sum(), .all(), .any())."
            )
        return on_cpu(self.array, operation).item()

    def numpy(self) -> np.ndarray:
        """The NumPy array of the elements, also if the tensor requires a gradient; from a GPU, a copy."""
        return on_cpu(self.array, "numpy()")

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return on_cpu(self.array, "tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._requires_grad and modes.grad_enabled:
            raise GraphError(
                "a NumPy array of a tensor that requires a gradient would lose the gradient.\n"
                "Use x.numpy() for the numbers, mg.stack(tensors) instead of an array of several."
            )
        if copy is False and self.device != "cpu":
            raise ValueError(f"a tensor on {self.device} cannot become a NumPy array without a copy")
        return np.array(on_cpu(self.array, "a NumPy array of a tensor"), dtype=dtype, copy=copy)

    def __dlpack__(self, **settings: Any) -> Any:
        """Share the memory with another library (`torch.from_dlpack(x)`)."""
        if min(self.array.strides, default=0) < 0:  # PyTorch would abort the process
            raise ShapeError(
                f"a tensor of shape {self.shape} has negative strides, which other libraries cannot read.\n"
                f"Pass a copy (`x.clone()`)."
            )
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def detach(self) -> Tensor:
        """A tensor that shares the memory, detached from the graph.

        >>> x = mg.tensor([3.0], requires_grad=True)
        >>> (x * x.detach()).backward()
        >>> x.grad
        tensor([3.])
        """
        alias = Tensor(self.array)
        share_version(self, alias)
        return alias

    @property
    def data(self) -> Tensor:
        """A tensor that shares the memory, detached from the graph (torch.Tensor.data).

        In-place changes of it write to the memory without a graph, and version checks do not see them.
        Assigning to `data` replaces the array.
        """
        alias = Tensor(self.array)
        share_version(self, alias)  # a view, which is updated if this tensor is rebound in place,
        alias.version = VersionCounter()  # but whose own changes are not counted
        alias.version.is_data = True
        return alias

    @data.setter
    def data(self, value: Any) -> None:
        array = _new_array(value, None, copy=False)
        if self._requires_grad and not is_floating(array.dtype):
            raise DtypeError(
                f"a tensor that requires a gradient cannot hold {array.dtype}.\nUse .to('float32')."
            )
        self.array = array

    # ------------------------------------------------------------ gradients

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward() accumulated, for a leaf or after `retain_grad()`; else None."""
        if self._grad is None and self.node is not None and not (self.node.hooks or {}).get(RETAINS_GRAD):
            warn(
                f"this tensor has no .grad, as it is not a leaf: {self.node} computed it.\n"
                f"Call .retain_grad() on it before backward(). A parameter stays a leaf if it is updated in "
                f"place: `with mg.no_grad(): w -= lr * w.grad`, not `w = w - lr * w.grad`."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            _check_grad(value, self)
        self._grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether a leaf requires a gradient, and return the tensor."""
        if requires_grad and not is_floating(self.array.dtype):
            raise DtypeError(
                f"only floating tensors have gradients, but this one is {self.dtype}.\nUse .to('float32')."
            )
        if self.node is not None and not requires_grad:
            raise GraphError("only a leaf can stop requiring a gradient.\nUse .detach().")
        self._requires_grad = bool(requires_grad)
        return self

    requires_grad: bool = property(  # type: ignore[assignment]
        attrgetter("_requires_grad"),
        requires_grad_,  # type: ignore[arg-type]
        doc="Whether operations on the tensor are recorded.",
    )


_new = object.__new__


def new_tensor(array: Any) -> Tensor:
    """A tensor of an array that an op has computed; a float32 array is not checked."""
    if array.dtype is not float32:
        return Tensor(array)
    tensor = _new(Tensor)
    tensor.array = array
    tensor._grad = tensor.node = tensor.version = tensor.hooks = None
    tensor._requires_grad = False
    return tensor


def _rebuilt(cls: type[Tensor], data: np.ndarray, requires_grad: bool) -> Tensor:
    """Rebuild a leaf from its parts."""
    tensor = cls.__new__(cls)
    Tensor.__init__(tensor, data, requires_grad)
    return tensor


def _check_grad(grad: Any, x: Tensor) -> None:
    """Raise an error unless `grad` is a tensor of x's shape, dtype and device."""
    if not isinstance(grad, Tensor):
        raise DtypeError(
            f".grad must be a tensor or None, got {type(grad).__name__}.\nAssign mg.tensor(...), or None."
        )
    if grad.shape != x.shape:
        raise ShapeError(
            f".grad of a tensor of shape {x.shape} cannot have shape {grad.shape}.\n"
            f"Assign a gradient of the tensor's shape, or None."
        )
    if grad.dtype != x.dtype or grad.device != x.device:
        raise DtypeError(
            f".grad of a {x.dtype} tensor on {x.device} cannot be {grad.dtype} on {grad.device}.\n"
            f"Assign grad.to(x)."
        )


def _array(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value


def from_other_library(x: Any) -> Any:
    """Convert another library's array to NumPy's, by `__array__` or DLPack; leave anything else unchanged."""
    by_array = hasattr(x, "__array__")
    if not by_array and not hasattr(x, "__dlpack__"):
        return x
    if isinstance(x, Tensor | np.generic | type) or is_array(x):
        return x
    try:
        if str(getattr(x, "dtype", "")) == "torch.bfloat16":  # NumPy cannot read it
            return np.asarray(x.float()).astype(bfloat16)
        return np.asarray(x) if by_array else np.from_dlpack(x)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise DtypeError(
            f"this {type(x).__name__} is not an array: {said}.\nPass a NumPy array of it."
        ) from None


def on_device_of(value: Any, array: Any) -> Any:
    """Return `value` as an array on the device of `array`; numbers, and on the CPU lists, are unchanged."""
    value = _array(value)
    if isinstance(value, int | float | np.generic):
        return value
    value = from_other_library(value)
    if device_of(array) == CPU and not is_array(value):
        return value
    return to_device_of(value if is_array(value) else np.asarray(value), array)


# ---------------------------------------------------------------- making tensors


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: an array of any library keeps its dtype, Python floats become float32.

    It is on the device of `data` unless `device` is given: lists and NumPy arrays are on the CPU. Tensors in
    lists are stacked and stay in their graph. A copy of a tensor is detached; `x.clone()` is not.

    >>> mg.tensor([[1, 2], [3, 4]], dtype="float32", requires_grad=True)
    tensor([[1., 2.],
            [3., 4.]], requires_grad=True)
    """
    if isinstance(data, Tensor):
        _warn_unless_constant(data, "mg.tensor(x)", "x.clone()")
    if isinstance(data, list | tuple):
        found = _from_lists(data, dtype, device)
        if requires_grad and found.node is None:
            found.requires_grad_()
        return found
    array = _new_array(data, dtype, copy=True)
    return Tensor(array if device is None else on_device(array, check_device(device)), requires_grad)


def _warn_unless_constant(x: Tensor, call: str, instead: str) -> None:
    if x._requires_grad and modes.grad_enabled:
        warn(
            f"{call} of a tensor that requires a gradient is detached from the graph: no gradient flows "
            f"back to x.\nWrite {instead} to keep the gradient, x.detach().clone() to leave it out."
        )


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """Like `tensor`, but memory is shared if possible, and a tensor stays in its graph.

    >>> a = np.zeros(2)
    >>> x = mg.as_tensor(a)
    >>> a[0] = 5
    >>> x
    tensor([5., 0.], dtype=float64)
    """
    if dtype is device is None and type(data) is np.ndarray:
        return Tensor(data)
    if isinstance(data, Tensor):
        if dtype is not None and as_dtype(dtype) != data.dtype:
            data = data.to(as_dtype(dtype))
        return data if device is None else data.to(check_device(device))
    if isinstance(data, list | tuple):
        return _from_lists(data, dtype, device)
    array = _new_array(data, dtype, copy=False)
    return Tensor(array if device is None else on_device(array, check_device(device)))


def _from_lists(data: Any, dtype: Any, device: str | None) -> Tensor:
    """Convert nested lists to a tensor; if tensors in them require a gradient, they are stacked."""
    tracked = list[Tensor]()
    array = _new_array(data, dtype, copy=True, tracked=tracked)
    if tracked and is_floating(array.dtype):
        device = tracked[0].device if device is None else check_device(device)
        return Tensor._nested(data, array.dtype, device)
    return Tensor(array if device is None else on_device(array, check_device(device)))


def raise_lost_gradient(what: str) -> NoReturn:
    """Raise the error for a conversion of tensors to numbers that would lose their gradients."""
    raise GraphError(
        f"{what} of tensors that require a gradient makes numbers of them, and the gradient would be lost.\n"
        f"Use mg.stack(tensors), which keeps it, or x.detach() of each."
    )


def holds_gradient(tree: Any) -> bool:
    """Whether grad mode is on and a tensor in nested lists, tuples and dicts requires a gradient."""
    return modes.grad_enabled and _holds_gradient(tree, ())


def _holds_gradient(tree: Any, around: tuple) -> bool:
    if isinstance(tree, Tensor):
        return tree._requires_grad
    if isinstance(tree, dict):
        tree = list(tree.values())
    if not isinstance(tree, list | tuple) or _NUMBERS.issuperset(map(type, tree)):
        return False
    around = (*around, tree)
    return any(_holds_gradient(x, around) for x in tree if not any(x is outer for outer in around))


def destination(targets: Iterable[Any], dtype: Any, device: str | None) -> tuple[np.dtype | None, str | None]:
    """The dtype and device named by `.to(*targets)`: each is a dtype, a device, or a tensor with both."""
    for target in targets:
        if isinstance(target, Tensor):
            dtype, device = target.dtype, target.device
        elif isinstance(target, str) and is_device_name(target):
            device = target
        elif isinstance(target, str) and not is_dtype(target):
            raise DtypeError(
                f"{target!r} is neither a dtype nor a device.\n"
                f"Devices are 'cpu', 'cuda', 'cuda:0', ... and 'auto'; dtypes are 'float32', 'bfloat16', ..."
            )
        else:
            dtype = target
    return None if dtype is None else as_dtype(dtype), None if device is None else check_device(device)


def as_tensor_like(data: Any, x: Tensor) -> Tensor:
    """`data` as a tensor: lists and NumPy arrays are moved to the device of x."""
    if isinstance(data, Tensor):
        return data
    return as_tensor(data, device=as_tensor(x).device)


def same_memory(x: Tensor) -> Tensor:
    """A constant that shares the memory and the version counter of x."""
    alias = Tensor(x.array)
    alias.version = version_of(x)
    return alias


def snapshot(x: Tensor) -> Tensor:
    """A tensor with the array, node and version of x, which does not change when x is rebound."""
    other = Tensor(x.array)
    other.node, other.version, other._requires_grad = x.node, x.version, x._requires_grad
    return other


def constant(array: Any, x: Tensor) -> Tensor:
    """A tensor of `array`, on the device of x."""
    return Tensor(on_device(array, x.device))


_NUMBERS = {float, int, bool, str, type(None), np.ndarray}  # types that cannot be tensors


def _new_array(data: Any, dtype: Any, copy: bool, tracked: list[Tensor] | None = None) -> np.ndarray:
    """Convert `data` to an array.

    If lists contain tensors that require a gradient, these are added to `tracked`; if `tracked` is None, a
    GraphError is raised.
    """
    if data is None:
        raise DtypeError("expected a tensor, an array or numbers, got None.\nPass one of these.")
    if isinstance(data, Tensor):
        data = data.array
    load_library_of(data)
    data = from_other_library(data)
    known = is_array(data) or isinstance(data, np.generic)
    if isinstance(data, list | tuple):
        found = list[Tensor]() if tracked is None else tracked
        data = _plain(data, found)
        if found and tracked is None:
            raise_lost_gradient("a list")
    try:
        library = array_module(data)
        array = library.array(data) if copy else library.asarray(data)
    except MinigradError:  # an element that requires a gradient
        raise
    except ValueError as error:
        if isinstance(error.__cause__, MinigradError):
            raise error.__cause__ from None
        why = "its lists differ in length or depth" if "inhomogeneous" in str(error) else error
        raise ShapeError(f"this is not a tensor: {why}.\nPass nested lists of one shape.") from None
    except (TypeError, RuntimeError) as error:  # raised by another library's __array__
        raise DtypeError(f"this {type(data).__name__} is not an array: {error}") from None
    if dtype is None and is_floating(array.dtype) and not known:
        dtype = _float_dtype(data)
        if dtype is None and isinstance(data, list) and array.size:
            raise DtypeError("integer does not fit int64.\nPass dtype='float64'.")
        dtype = dtype or default_float
    if array.dtype.kind in "SU":
        raise DtypeError(
            f"this is not a tensor of numbers: it has the text {array.reshape(-1)[:1].tolist()}.\n"
            f"Convert it first: float(text) for a number, a tokenizer's ids for words."
        )
    if array.dtype == object and not known:
        kinds = sorted({type(x).__name__ for x in array.reshape(-1)} - {"int", "float", "bool"})
        raise DtypeError(f"this is not a tensor of numbers: it has {', '.join(kinds)}.\nPass numbers.")
    dtype = as_dtype(array.dtype if dtype is None else dtype)
    check_convertible(array, dtype, wraps=known)
    try:
        return array.astype(dtype, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise DtypeError(f"this cannot be a {dtype} tensor: {error}.\nPass numbers of that dtype.") from None


def _float_dtype(data: Any) -> np.dtype | None:
    """The widest floating dtype of arrays and NumPy scalars in nested lists; Python floats are float32."""
    if not isinstance(data, list):
        dtype = getattr(data, "dtype", default_float if isinstance(data, float) else None)
        return dtype if dtype is not None and is_floating(dtype) else None
    kinds = set(map(type, data))
    if kinds <= {float, int, bool}:
        return default_float if float in kinds else None
    dtypes = [dtype for dtype in map(_float_dtype, data) if dtype is not None]
    return reduce(np.promote_types, set(dtypes)) if dtypes else None


def _plain(data: Any, tracked: list[Tensor], around: tuple = ()) -> Any:
    """Nested lists with tensors replaced by arrays; `around`: the enclosing lists.

    Tensors that require a gradient are added to `tracked`.
    """
    if not isinstance(data, list | tuple):
        if isinstance(data, Tensor) and data._requires_grad and modes.grad_enabled:
            tracked.append(data)
        return from_other_library(on_cpu(_array(data)))
    if any(data is outer for outer in around):
        raise ShapeError("this list contains itself.\nPass nested lists of numbers.")
    if type(data) is list and set(map(type, data)) <= {float, int, bool}:
        return data
    return [_plain(x, tracked, (*around, data)) for x in data]
