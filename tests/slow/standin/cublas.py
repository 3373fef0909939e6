"""`nvmath.bindings.cublas` where there is no GPU: the products that minigrad asks of it, by columns as cuBLAS
stores matrices, computed in the memory that the addresses name. As strict as cuBLAS is about its arguments.
"""

import contextlib
import ctypes
import importlib.machinery
import itertools
import sys
import types

import ml_dtypes
import numpy as np

from . import graphs

KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
COMPUTED = {68: np.float32, 70: np.float64, 77: np.float32}


def at(pointer, dtype, elements):
    """Memory at an address."""
    dtype = np.dtype(dtype)
    return np.frombuffer((ctypes.c_char * (elements * dtype.itemsize)).from_address(pointer), dtype)


def tf32(x):
    """Numbers of 10 bits of mantissa."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


class Bindings(types.ModuleType):
    """The module."""

    def __init__(self):
        super().__init__("nvmath.bindings.cublas")
        self.handles = {}
        self.numbers = itertools.count(1)
        self.calls = []
        self.workspaces = {}  # by stream

    def create(self):
        assert graphs.capturing() is None, "cuBLAS asks for memory to begin with"
        handle = next(self.numbers)
        self.handles[handle] = {"stream": 0, "workspace": 0}
        return handle

    def set_stream(self, handle, stream):
        self.handles[handle] = {"stream": stream, "workspace": 0}

    def set_workspace(self, handle, pointer, size):
        assert owner(pointer).nbytes >= size
        self.handles[handle]["workspace"] = pointer

    def gemm_ex(
        self, handle, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta, c, ctype, ldc,
        compute, algo,
    ):  # fmt: skip
        a = (a, atype, lda, 0)
        b = (b, btype, ldb, 0)
        c = (c, ctype, ldc, 0)
        sizes = handle, transa, transb, m, n, k
        self.gemm_strided_batched_ex(*sizes, alpha, *a, *b, beta, *c, 1, compute, algo)

    def gemm_strided_batched_ex(
        self, handle, transa, transb, m, n, k, alpha, a, atype, lda, stride_a, b, btype, ldb, stride_b,
        beta, c, ctype, ldc, stride_c, number, compute, algo,
    ):  # fmt: skip
        assert all(
            type(x) is int for x in (transa, transb, m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c)
        )
        assert min(m, n, k, number) > 0
        assert lda >= (k if transa else m)
        assert ldb >= (n if transb else k)
        assert ldc >= m
        assert atype == btype == ctype
        assert (compute == 70) == (ctype == 1)
        assert self.handles[handle]["stream"] == graphs.Stream.current.ptr
        workspace = self.handles[handle]["workspace"]
        assert workspace, "it would ask for memory"
        self.workspaces.setdefault(graphs.Stream.current.ptr, set()).add(workspace)
        wide = COMPUTED[compute]
        alpha, beta = (at(pointer, wide, 1)[0] for pointer in (alpha, beta))  # read now, by the host
        self.calls.append((transa, transb, m, n, k, number, compute))

        def matrix(pointer, kind, rows, columns, leading, stride, i):
            x = at(
                pointer + i * stride * np.dtype(KINDS[kind]).itemsize,
                KINDS[kind],
                leading * (columns - 1) + rows,
            )
            return np.lib.stride_tricks.as_strided(x, (rows, columns), (x.itemsize, leading * x.itemsize))

        def run(*held):
            for i in range(number):
                x = matrix(a, atype, *((k, m) if transa else (m, k)), lda, stride_a, i)
                y = matrix(b, btype, *((n, k) if transb else (k, n)), ldb, stride_b, i)
                z = matrix(c, ctype, m, n, ldc, stride_c, i)
                x, y = (p.astype(wide) for p in (x, y))
                if compute == 77:
                    x, y = tf32(x), tf32(y)
                product = alpha * ((x.T if transa else x) @ (y.T if transb else y))
                z[...] = product + beta * z.astype(wide) if beta else product

        graph = graphs.capturing()
        if graph is None:
            run()
        else:
            graph.note_launch(run, (), [owner(pointer) for pointer in (a, b, c)])


def owner(pointer):
    """The array whose memory an address is in."""
    from . import ndarray

    owners = [x._owner for x in ndarray._owners.values()]
    return next(x for x in owners if x.ctypes.data <= pointer < x.ctypes.data + x.nbytes)


@contextlib.contextmanager
def installed():
    """Within it `import nvmath.bindings.cublas` and `cublasLt` give the stand-ins."""
    from . import cublaslt

    bindings = Bindings()
    bindings.lt = cublaslt.Bindings()
    modules = {"nvmath": types.ModuleType("nvmath"), "nvmath.bindings": types.ModuleType("nvmath.bindings"),
               "nvmath.bindings.cublas": bindings, "nvmath.bindings.cublasLt": bindings.lt}  # fmt: skip
    for name, module in modules.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield bindings
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
