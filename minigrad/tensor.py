"""Tensor: an array, its gradient, and the operation that made it.

The class holds state and nothing else. Every operation is an op record in `minigrad.ops`, bound to Tensor as a
method in one place (`minigrad/ops/__init__.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import autograd, random
from .autograd import mutate
from .devices import as_dtype, check_device, default_float, is_floating
from .errors import DtypeError, ShapeError


class Tensor:
    """An n-dimensional array that knows how it was computed.

    `data` is the NumPy array, `grad` the gradient that backward() left (a Tensor or None), `node` what made the
    tensor (None for a leaf).
    """

    __slots__ = ("__weakref__", "cell", "data", "grad", "hooks", "node", "requires_grad")
    __array_ufunc__ = None  # ndarray * Tensor is left to Tensor.__rmul__

    data: np.ndarray
    grad: Tensor | None
    requires_grad: bool
    node: Any
    cell: autograd.Cell | None
    hooks: dict[int, Callable] | None

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self.data = data if type(data) is np.ndarray else np.asarray(data)
        self.grad = self.node = self.cell = self.hooks = None
        self.requires_grad = False
        if requires_grad:
            self.requires_grad_()

    # ------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    @property
    def grad_fn(self) -> Any:
        """PyTorch's name of `node`."""
        return self.node

    def size(self, dim: int | None = None) -> Any:
        return self.data.shape if dim is None else self.data.shape[dim]

    def dim(self) -> int:
        return self.data.ndim

    def numel(self) -> int:
        return self.data.size

    def is_floating_point(self) -> bool:
        return is_floating(self.data.dtype)

    def __len__(self) -> int:
        if not self.data.ndim:
            raise TypeError("a 0-d tensor has no length.\nUse .item() for its number.")
        return len(self.data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.data.ndim:
            raise TypeError("a 0-d tensor cannot be walked over.\nUse .item() for its number.")
        return (self[i] for i in range(len(self.data)))  # type: ignore[index]

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iu":
            raise TypeError(
                f"only an integer tensor is an index, this one is {self.dtype}.\nConvert it with .to('int64')."
            )
        return int(self.item())

    def __repr__(self) -> str:
        body = np.array2string(self.data, separator=", ", precision=4, prefix="tensor(", threshold=1000)
        notes = ""
        if self.data.dtype not in (default_float, np.dtype("int64"), np.dtype("bool")):
            notes += f", dtype={self.data.dtype}"
        if self.node is not None:
            notes += f", grad_fn=<{_op_name(self.node)}>"
        elif self.requires_grad:
            notes += ", requires_grad=True"
        return f"tensor({body}{notes})"

    # ------------------------------------------------------------ out of the library

    def item(self) -> Any:
        """The number in a tensor of one element, as a Python number."""
        if self.data.size != 1:
            raise ShapeError(
                f"item() takes a tensor of one element, this one has shape {self.shape}.\nUse .tolist(), or index it first."
            )
        return self.data.item()

    def numpy(self) -> np.ndarray:
        """The array itself (not a copy), also where a gradient is required."""
        return self.data

    def tolist(self) -> Any:
        return self.data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype=dtype, copy=copy)

    def detach(self) -> Tensor:
        """The same memory, outside the graph."""
        alias = Tensor(self.data)
        alias.cell = autograd.share_cell(self)
        return alias

    def cpu(self) -> Tensor:
        return self

    # ------------------------------------------------------------ gradients

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say that a leaf's gradient is wanted; returns the tensor."""
        if requires_grad and not is_floating(self.data.dtype):
            raise DtypeError(
                f"only floating tensors have gradients, this one is {self.dtype}.\nConvert it with .to('float32')."
            )
        if self.node is not None and not requires_grad:
            raise DtypeError("only a leaf can stop requiring a gradient.\nUse .detach().")
        self.requires_grad = requires_grad
        return self

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False
    ) -> None:
        """Add the derivative of this tensor (times `gradient`) to `.grad` of every leaf it came from."""
        autograd.backward(self, gradient, retain_graph, create_graph)

    def accumulate_grad(self, g: Any, owned: bool) -> None:
        """Add `g`, an array (kept without a copy only if `owned`) or a Tensor with a graph, to `.grad`."""
        if isinstance(g, Tensor):
            self.grad = g if self.grad is None else self.grad + g  # type: ignore[operator]
        elif self.grad is None:
            self.grad = Tensor(g if owned else np.array(g))
        elif self.grad.node is None:
            self.grad.data += g
        else:
            self.grad = Tensor(self.grad.data + g)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` when this tensor's gradient is complete; what it returns replaces the gradient.

        Returns a function that removes the hook.
        """
        owner = self if self.node is None else self.node
        if owner.hooks is None:
            owner.hooks = {}
        key = max(owner.hooks, default=-1) + 1
        owner.hooks[key] = hook
        hooks = owner.hooks
        return lambda: hooks.pop(key, None)  # type: ignore[arg-type, return-value]

    # ------------------------------------------------------------ in place, outside graphs

    def copy_(self, source: Any) -> Tensor:
        return self._write("copy_", lambda: np.copyto(self.data, _array(source), casting="same_kind"))

    def fill_(self, value: float) -> Tensor:
        return self._write("fill_", lambda: self.data.fill(value))

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def add_(self, other: Any, alpha: float = 1) -> Tensor:
        other = _array(other)
        return self._write(
            "add_", lambda: np.add(self.data, other if alpha == 1 else alpha * other, out=self.data)
        )

    def sub_(self, other: Any) -> Tensor:
        return self._write("sub_", lambda: np.subtract(self.data, _array(other), out=self.data))

    def mul_(self, other: Any) -> Tensor:
        return self._write("mul_", lambda: np.multiply(self.data, _array(other), out=self.data))

    def div_(self, other: Any) -> Tensor:
        return self._write("div_", lambda: np.divide(self.data, _array(other), out=self.data))

    __iadd__, __isub__, __imul__, __itruediv__ = add_, sub_, mul_, div_

    def __setitem__(self, index: Any, value: Any) -> None:
        def write() -> None:
            self.data[_array_index(index)] = _array(value)

        self._write("item assignment", write)

    def _write(self, name: str, change: Callable[[], Any]) -> Tensor:
        mutate(self, name)
        try:
            change()
        except (ValueError, TypeError, IndexError) as error:
            raise ShapeError(
                f"{name} on a tensor of shape {self.shape} and dtype {self.dtype}: {error}.\nGive a value that fits."
            ) from None
        return self


def _op_name(edge: Any) -> str:
    return edge.node.op.name if isinstance(edge, autograd.Output) else edge.op.name


def _array(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else value


def _array_index(index: Any) -> Any:
    """An index with arrays where the user wrote tensors."""
    if isinstance(index, tuple):
        return tuple(_array_index(i) for i in index)
    return np.asarray(index) if isinstance(index, list) else _array(index)


# ---------------------------------------------------------------- making tensors


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: an array keeps its dtype; Python floats and lists of them become float32."""
    check_device(device)
    array = _new_array(data, dtype, copy=True)
    return Tensor(array, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """As `tensor`, but sharing memory where it can."""
    check_device(device)
    if isinstance(data, Tensor) and (dtype is None or as_dtype(dtype) == data.dtype):
        return data
    return Tensor(_new_array(data, dtype, copy=False))


def _new_array(data: Any, dtype: Any, copy: bool) -> np.ndarray:
    if isinstance(data, Tensor):
        data = data.data
    known = isinstance(data, np.ndarray | np.generic)
    if isinstance(data, list | tuple):
        data = _plain(data)
    try:
        array = np.array(data) if copy else np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"cannot make a tensor: {error}.\nGive nested lists of one shape.") from None
    if dtype is None:
        dtype = default_float if array.dtype.kind == "f" and not known else array.dtype
    return array.astype(as_dtype(dtype), copy=False)


def _plain(data: Any) -> Any:
    return [_plain(x) for x in data] if isinstance(data, list | tuple) else _array(data)


def zeros(*shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    check_device(device)
    return Tensor(np.zeros(_shape(shape), as_dtype(dtype or default_float)), requires_grad)


def ones(*shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    check_device(device)
    return Tensor(np.ones(_shape(shape), as_dtype(dtype or default_float)), requires_grad)


def empty(*shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    check_device(device)
    return Tensor(np.empty(_shape(shape), as_dtype(dtype or default_float)), requires_grad)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    check_device(device)
    if dtype is None:
        dtype = default_float if isinstance(fill_value, float) else np.asarray(fill_value).dtype
    return Tensor(np.full(_shape((shape,)), fill_value, as_dtype(dtype)), requires_grad)


def arange(
    start: float, end: float | None = None, step: float = 1, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Numbers from `start` (0 if only one is given) to before `end`: int64, or float32 where one of them is a float."""
    check_device(device)
    if end is None:
        start, end = 0, start
    if dtype is None:
        dtype = default_float if any(isinstance(x, float) for x in (start, end, step)) else np.int64
    return Tensor(np.arange(start, end, step).astype(as_dtype(dtype)))


def eye(n: int, m: int | None = None, dtype: Any = None, device: str | None = None) -> Tensor:
    check_device(device)
    return Tensor(np.eye(n, m, dtype=as_dtype(dtype or default_float)))


def zeros_like(input: Tensor, dtype: Any = None) -> Tensor:
    return zeros(input.shape, dtype=dtype or input.dtype)


def ones_like(input: Tensor, dtype: Any = None) -> Tensor:
    return ones(input.shape, dtype=dtype or input.dtype)


def rand(*shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform on [0, 1)."""
    return _drawn("random", shape, dtype, requires_grad)


def randn(*shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Standard normal."""
    return _drawn("standard_normal", shape, dtype, requires_grad)


def randint(low: int, high: int, size: Any, dtype: Any = None) -> Tensor:
    """Integers from `low` to before `high`."""
    drawn = random.generator(random.next_key("randint")).integers(low, high, _shape((size,)))
    return Tensor(drawn.astype(as_dtype(dtype or np.int64)))


def _drawn(distribution: str, shape: Any, dtype: Any, requires_grad: bool) -> Tensor:
    draw = getattr(random.generator(random.next_key(distribution)), distribution)
    return Tensor(draw(_shape(shape)).astype(as_dtype(dtype or default_float)), requires_grad)


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`zeros(2, 3)`, `zeros((2, 3))` and `zeros([2, 3])` are the same."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    with contextlib.suppress(TypeError):
        return tuple(int(n) for n in sizes)
    raise ShapeError(f"a shape is whole numbers, got {sizes!r}.\nWrite zeros(2, 3) or zeros((2, 3)).")
