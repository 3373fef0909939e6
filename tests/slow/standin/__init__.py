"""A stand-in for CuPy where there is no GPU: arrays that live "elsewhere", computed by NumPy.

It is as strict as CuPy is. Its arrays are no NumPy arrays and mix with none: `np.asarray(x)` is a TypeError,
and so are `x + ndarray` and `np.exp(x)` (that one CuPy would allow). It has the functions, methods and
parameters that CuPy has (`names.json`, read from CuPy itself) and no others. What CuPy does in another way
it does in another way too: reductions give 0-d arrays, `x[0]` is a view, an index beyond the end wraps, and
of several values for one place any may stay (here the first, where NumPy keeps the last).

    with standin.installed():
        mg.tensor([1.0], device="cuda")
"""

import contextlib
import functools
import importlib.machinery
import json
import sys
import types
import weakref
from pathlib import Path
from typing import ClassVar

import numpy as np
from ml_dtypes import bfloat16

from . import emulator, graphs
from .graphs import downloads, primitive, through_cublas, uploads, waits

NAMES = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
SCALARS = (bool, int, float, np.generic, type(None), str, type, np.dtype, slice, type(Ellipsis))
ADDS = {np.dtype(t) for t in ("int32", "float32", "float64", "uint32", "uint64")}  # what atomicAdd takes


def bare(x):
    """What CuPy takes, as NumPy takes it."""
    if isinstance(x, ndarray):
        return x._array
    if isinstance(x, list | tuple):
        return type(x)(map(bare, x)) if not hasattr(x, "_fields") else type(x)(*map(bare, x))
    if isinstance(x, SCALARS):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


calm = np.errstate(all="ignore")  # a GPU does not warn


def clad(x):
    """NumPy's result as CuPy gives it."""
    if isinstance(x, np.ndarray | np.generic) and not isinstance(x, np.void):
        return ndarray._around(np.asarray(x))
    if isinstance(x, list | tuple):
        parts = [clad(part) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


def checked(name, parameters, args, settings):
    """Refuse what CuPy's function does not take."""
    if parameters is None or {"args", "kwargs", "operands"} & set(parameters):
        return
    variadic = any(p.startswith("*") for p in parameters)
    if (len(args) > len(parameters) and not variadic) or not settings.keys() <= set(parameters):
        raise TypeError(f"CuPy's {name} takes {parameters}, got {len(args)} arguments and {list(settings)}")


class Flags:
    """CuPy knows no `writeable`."""

    def __init__(self, flags):
        self.c_contiguous = flags.c_contiguous
        self.f_contiguous = flags.f_contiguous
        self.owndata = flags.owndata


class ndarray:
    """An array on a GPU that is none."""

    __array_ufunc__ = None
    __hash__ = None
    _owners: ClassVar = weakref.WeakValueDictionary()  # by the memory that they own

    @classmethod
    def _around(cls, array):
        self = cls.__new__(cls)
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._array, self.base = array, cls._owners.get(id(owner))
        if self.base is None:
            self._owner = owner
            cls._owners[id(owner)] = self
            graphs.taken(owner)
        return self

    def __del__(self, interpreter_ends=sys.is_finalizing):
        if self.base is None and not interpreter_ends():
            graphs.given_back(self._owner)

    def __array__(self, *args, **settings):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def get(self, stream=None, order="C", out=None, blocking=True):
        downloads()
        return np.array(self._array, order=order)

    def set(self, array, stream=None):
        uploads()
        assert type(array) is np.ndarray
        self._array[...] = array

    flags = property(lambda self: Flags(self._array.flags))
    device = property(lambda self: Device(0))
    T = property(primitive(lambda self: clad(self._array.T)))
    mT = property(primitive(lambda self: clad(self._array.mT)))

    data = property(lambda self: types.SimpleNamespace(ptr=self._array.ctypes.data))

    @primitive
    def fill(self, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._array.fill(value.item() if isinstance(value, np.ndarray | ndarray) else value)

    @primitive
    def view(self, dtype=None):
        return clad(self._array.view() if dtype is None else self._array.view(dtype))

    @primitive
    def diagonal(self, offset=0, axis1=0, axis2=1):
        view = self._array.diagonal(offset, axis1, axis2)
        view.flags.writeable = self._array.flags.writeable
        return clad(view)

    @primitive
    def take(self, indices, axis=None, out=None):
        length = self.size if axis is None else self.shape[axis]
        indices = np.asarray(bare(indices))
        if not length and indices.size:
            raise IndexError("cannot do a non-empty take from an empty axes.")
        return clad(self._array.take(indices % max(length, 1), axis))

    @primitive
    def argsort(self, axis=-1, kind=None):
        return clad(self._array.argsort(axis, kind="stable"))

    @primitive
    def sort(self, axis=-1, kind=None):
        self._array.sort(axis)

    def max(self, axis=None, out=None, keepdims=False):
        return self._extreme("max", axis, out, keepdims)

    def min(self, axis=None, out=None, keepdims=False):
        return self._extreme("min", axis, out, keepdims)

    @primitive
    def _extreme(self, name, axis, out, keepdims):
        return clad(getattr(self._array, name)(axis=axis, out=bare(out), keepdims=keepdims))

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[i] for i in range(len(self._array)))

    @primitive
    def __getitem__(self, index):
        return clad(self._array[self._index(index)])

    @primitive
    def __setitem__(self, index, value):
        index = self._index(index)
        advanced = any(isinstance(i, np.ndarray) for i in index)
        if isinstance(value, np.ndarray):
            if value.ndim and not advanced:
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        else:
            value = bare(value)
            if np.may_share_memory(self._array, value):
                value = value.copy()
        if not advanced:
            self._array[index] = value
            return
        places = np.arange(self.size).reshape(self.shape)[index]
        values = np.broadcast_to(value, places.shape).reshape(-1)
        self._array.flat[places.reshape(-1)[::-1]] = values[::-1]

    def _index(self, index):
        """The index with all places within the axes, so that NumPy makes views where CuPy does."""
        given = index if isinstance(index, tuple) else (index,)
        if any(isinstance(i, ndarray) and i.dtype == bool for i in given):
            downloads()  # how many places there are
        if any(isinstance(i, list | np.ndarray) for i in given):
            uploads()
        kinds = (list, tuple, np.ndarray, ndarray, bool, np.bool_)
        items = [
            np.asarray(bare(i) if isinstance(i, ndarray) else i) if isinstance(i, kinds) else i for i in given
        ]
        is_mask = lambda i: isinstance(i, np.ndarray) and i.dtype == bool
        consumed = [0 if i is None or i is Ellipsis else i.ndim if is_mask(i) else 1 for i in items]
        if not any(i is Ellipsis for i in items):
            items.append(Ellipsis)
            consumed.append(0)
        axis = 0
        for place, (i, number) in enumerate(zip(items, consumed, strict=True)):
            if i is Ellipsis:
                axis += self.ndim - sum(consumed)
            elif isinstance(i, np.ndarray) and i.dtype != bool and axis < self.ndim:
                i = i.astype(np.int64) if not i.size and i.dtype.kind == "f" else i
                if i.dtype.kind not in "iu":
                    raise IndexError("arrays used as indices must be of integer or boolean type")
                items[place] = i % self.shape[axis] if self.shape[axis] else i
            axis += number
        return tuple(items)


def _downloading(name):
    def method(self, *args):
        downloads()
        return getattr(self._array, name)(*args)

    return method


def _method(name, parameters):
    @primitive
    @calm
    def method(self, *args, **settings):
        checked(f"ndarray.{name}", parameters, args, settings)
        return clad(getattr(self._array, name)(*map(bare, args), **{k: bare(v) for k, v in settings.items()}))

    return method


def in_float32(a, b):
    """cuBLAS adds up 16-bit products in float32; CuPy knows no batches of bfloat16."""
    if a.dtype.kind == "V" and max(a.ndim, b.ndim) > 2:
        raise TypeError("data type 'E' not understood")
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def _operator(name):
    plain = getattr(np.ndarray, name)

    @primitive
    @calm
    def operate(self, *others):
        if "matmul" in name:
            through_cublas()
            if self.dtype.itemsize == 2:
                return clad(in_float32(self._array, *map(bare, others)))
        if not all(isinstance(other, (*SCALARS, ndarray, np.ndarray)) for other in others):
            return NotImplemented
        found = plain(self._array, *map(bare, others))
        return self if found is self._array else found if found is NotImplemented else clad(found)

    return operate


for _name in ["item", "tolist", "__bool__", "__int__", "__float__", "__repr__", "__format__"]:
    setattr(ndarray, _name, _downloading(_name))
for _name in ["shape", "strides", "dtype", "ndim", "size", "itemsize", "nbytes"]:
    setattr(ndarray, _name, property(lambda self, name=_name: getattr(self._array, name)))
for _name, _parameters in NAMES["ndarray"].items():
    if _name not in vars(ndarray) and hasattr(np.ndarray, _name):
        setattr(ndarray, _name, _method(_name, _parameters))
WORDS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
for _word in WORDS.split():
    for _form in (f"__{_word}__", f"__r{_word}__", f"__i{_word}__"):
        if _form != "__imatmul__":
            setattr(ndarray, _form, _operator(_form))
for _word in ["neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(ndarray, f"__{_word}__", _operator(f"__{_word}__"))


class Ufunc:
    """An elementwise function; of its methods only those that CuPy has."""

    def __init__(self, ufunc, scatters):
        self.ufunc = ufunc
        self.scatters = scatters

    @primitive
    @calm
    def __call__(self, *args, **settings):
        checked(self.ufunc.__name__, ["x1", "x2", "out", "dtype", "casting", "where"], args, settings)
        out = settings.get("out")
        found = self.ufunc(*map(bare, args), **{k: bare(v) for k, v in settings.items()})
        return out if out is not None else clad(found)

    @primitive
    def at(self, a, indices, b):
        if not self.scatters or a.dtype not in ADDS:
            raise TypeError(f"{self.ufunc.__name__}.at only supports int32, float32, float64, uint32, uint64")
        self.ufunc.at(a._array, a._index(indices), np.asarray(bare(b), a.dtype))

    def accumulate(self, array, axis=0, dtype=None, out=None):
        return self._method("accumulate", ("add", "multiply"), array, axis=axis, dtype=dtype)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return self._method("reduce", ("add", "multiply"), array, axis=axis, dtype=dtype, keepdims=keepdims)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        return self._method("reduceat", ("add",), array, bare(indices), axis=axis, dtype=dtype)

    @primitive
    def _method(self, method, having, array, *args, **settings):
        if self.ufunc.__name__ not in having:
            raise NotImplementedError(f"`cupy_{self.ufunc.__name__}.{method}` is not supported yet")
        return clad(getattr(self.ufunc, method)(array._array, *args, **settings))


PRODUCTS = {"matmul", "dot", "vdot", "inner", "tensordot", "einsum", "kron"}
# what is found says how much
COUNTED = {"nonzero", "flatnonzero", "argwhere", "unique", "compress", "extract"}


def _function(name, parameters, plain):
    @functools.wraps(plain)
    @calm
    def function(*args, **settings):
        if name in PRODUCTS:
            through_cublas()
        if name in COUNTED:
            downloads()
        if name in ("concatenate", "concat", "stack") and len(args[0]) > 8:
            uploads()  # uploads the addresses of arrays
        return run(*args, **settings)

    @primitive
    def run(*args, **settings):
        checked(name, parameters, args, settings)
        out = settings.get("out")
        if name in ("argsort", "sort"):
            settings.pop("kind", None)
            settings["stable"] = True
        found = plain(*map(bare, args), **{k: bare(v) for k, v in settings.items()})
        return out if out is not None else clad(found)

    return function


class Module(types.ModuleType):
    """`cupy`, or a module within it."""

    def __init__(self, name, table, plain):
        super().__init__(name)
        self.__dict__.update(_table=table, _plain=plain)

    def __getattr__(self, name):
        if name in NAMES["plain"] and hasattr(self._plain, name):
            return getattr(self._plain, name)
        if name not in self._table or not hasattr(self._plain, name):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        parameters = self._table[name]
        plain = getattr(self._plain, name)
        if isinstance(parameters, dict) and isinstance(plain, np.ufunc):
            found = Ufunc(plain, parameters["scatters"])
        else:
            found = _function(name, None if isinstance(parameters, dict) else parameters, plain)
        setattr(self, name, found)
        return found


@primitive
def _array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, blocking=False):
    plain = obj if isinstance(obj, np.ndarray) else bare(obj)
    if isinstance(obj, np.ndarray | list | tuple) and np.ndim(plain):
        uploads()
    if isinstance(obj, np.ndarray) or copy:
        return clad(np.array(plain, dtype=dtype, order=order, ndmin=ndmin))
    found = np.array(plain, dtype=dtype, copy=None, order=order, ndmin=ndmin)
    return obj if isinstance(obj, ndarray) and found is obj._array else clad(found)


def _asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return _array(a, dtype, bool(copy), order or "K")


def _ascontiguousarray(a, dtype=None):
    return _array(a, dtype, False, "C")


def _take(a, indices, axis=None, out=None):
    return a.take(indices, axis)


def _diagonal(a, offset=0, axis1=0, axis2=1):
    return a.diagonal(offset, axis1, axis2)


def _where(condition, x=None, y=None):
    """CuPy's knows no bfloat16, and gives float32."""
    found = _function("where", NAMES[""]["where"], np.where)(condition, *([] if x is None else [x, y]))
    return found.astype(np.float32) if getattr(found, "dtype", None) == bfloat16 else found


def _broadcast_to(array, shape):
    if not isinstance(array, ndarray):
        raise TypeError(f"Argument 'array' has incorrect type (expected ndarray, got {type(array).__name__})")
    return _function("broadcast_to", NAMES[""]["broadcast_to"], np.broadcast_to)(array, shape)


class Device:
    """The one GPU that is there."""

    def __init__(self, device=0):
        self.id = device

    def use(self):
        pass

    def synchronize(self):
        waits()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


def _special(name):
    """Computed by the functions for the CPU, which CuPy has functions of its own for."""

    def compute(x):
        if name in ("erfcx", "erfinv", "ndtri"):
            from minigrad.more import error_functions as functions
        else:
            from minigrad.ops import special_functions as functions
        return clad(getattr(functions, "sigmoid" if name == "expit" else name)(bare(x)))

    return primitive(compute)


def cupy_module():
    """The module that `import cupy` gives while the stand-in is installed."""
    cupy = Module("cupy", NAMES[""], np)
    cupy.__path__ = []
    cupy.__version__ = f"{NAMES['version']} (a stand-in)"
    cupy.__file__ = __file__
    cupy.linalg = Module("cupy.linalg", NAMES["linalg"], np.linalg)
    cupy.lib = types.ModuleType("cupy.lib")
    cupy.lib.stride_tricks = Module(
        "cupy.lib.stride_tricks", NAMES["lib.stride_tricks"], np.lib.stride_tricks
    )
    cupy.ndarray = ndarray
    cupy.array = _array
    cupy.asarray = _asarray
    cupy.ascontiguousarray = _ascontiguousarray
    cupy.take = _take
    cupy.diagonal = _diagonal
    cupy.where = _where
    cupy.broadcast_to = _broadcast_to
    cupy.asnumpy = lambda x: x.get()
    cupy.RawModule = emulator.RawModule
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.Device = Device
    vars(cupy.cuda).update(graphs.names())
    cupy.get_default_pinned_memory_pool = lambda: graphs.PinnedMemoryPool.usual
    cupy.get_default_memory_pool = lambda: graphs.MemoryPool.usual
    cupy.cuda.runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda device: {"name": b"a stand-in"},
        driverGetVersion=lambda: 13000,
        deviceSynchronize=waits,
    )
    return cupy


def cupyx_module():
    cupyx = types.ModuleType("cupyx")
    cupyx.errstate = lambda **settings: contextlib.nullcontext()
    cupyx.scipy = types.ModuleType("cupyx.scipy")
    cupyx.scipy.special = types.ModuleType("cupyx.scipy.special")
    for name in NAMES["special"]:
        setattr(cupyx.scipy.special, name, _special(name))
    return cupyx


@contextlib.contextmanager
def installed():
    """Within it `import cupy` gives the stand-in, and devices know it."""
    from minigrad.core import devices
    from minigrad.kernels.cuda.backend import CuPyBackend

    cupy = cupy_module()
    cupyx = cupyx_module()

    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupyx.__spec__ = importlib.machinery.ModuleSpec("cupyx", None)
    modules = {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": cupyx.scipy,
               "cupyx.scipy.special": cupyx.scipy.special}  # fmt: skip
    before = {name: sys.modules.get(name) for name in modules}
    backend = devices.find_backend("cuda")
    sys.modules.update(modules)
    devices.register(CuPyBackend())  # this imports the stand-in
    try:
        yield cupy
    finally:
        devices.register(backend)
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
