"""A matrix product with a bias, or with a bias's gradient, in one kernel: an epilogue of cuBLASLt.

Without it the bias is first written to the result, and its gradient is a sum that reads the whole gradient
again. cuBLASLt is called through nvmath-python's bindings, as in `cublas`. There is one plan for each
combination of sizes.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

ALIGNMENT = 16  # bytes; the addresses of all matrices must be multiples of it
MAX_PLANS = 512
SUCCESS = 0  # cublasStatus_t
RESULT = np.dtype(
    [("algorithm", np.uint64, 8), ("workspace", np.uint64), ("state", np.int32), ("waves", np.float32),
     ("reserved", np.int32, 4)]
)  # fmt: skip  # cublasLtMatmulHeuristicResult_t


class Sizes(NamedTuple):
    """C = A B with an epilogue as cuBLASLt sees it: by columns, C of shape (m, n)."""

    m: int
    n: int
    k: int
    operations: tuple[int, int]  # cublasOperation_t of A and B
    leading: tuple[int, int]
    kind: int  # cudaDataType
    compute: int  # cublasComputeType_t
    epilogue: str  # "BIAS": C = A B + bias; "BGRADB": the bias becomes the sums of the columns of B


class Plan:
    """A cuBLASLt plan. Its descriptors are destroyed with it; graphs captured with it do not need them."""

    description: int
    layouts: tuple[int, int, int]  # for A, B and C
    found: np.ndarray  # a RESULT, which begins with the algorithm

    def __init__(self, bindings: Any, sizes: Sizes) -> None:
        m, n, k = sizes[:3]
        a_transposed, b_transposed = sizes.operations
        a_leading, b_leading = sizes.leading
        # scale type 0 (CUDA_R_32F): alpha and beta are float32
        self.description = bindings.matmul_desc_create(sizes.compute, 0)
        weakref.finalize(self, bindings.matmul_desc_destroy, self.description)
        _set(bindings, self.description, "TRANSA", a_transposed, np.int32)
        _set(bindings, self.description, "TRANSB", b_transposed, np.int32)
        _set(bindings, self.description, "EPILOGUE", bindings.Epilogue[sizes.epilogue], np.int32)

        def layout(rows: int, columns: int, leading: int) -> int:
            created = bindings.matrix_layout_create(sizes.kind, rows, columns, leading)
            weakref.finalize(self, bindings.matrix_layout_destroy, created)
            return created

        self.layouts = (
            layout(*((k, m) if a_transposed else (m, k)), a_leading),
            layout(*((n, k) if b_transposed else (k, n)), b_leading),
            layout(m, n, m),
        )
        self.found = np.zeros(1, RESULT)


def product_with_epilogue(
    cublas: Any, sizes: Sizes, addresses: tuple[int, int, int, int], one: int, zero: int
) -> bool:
    """Compute a product and its epilogue, or return False, without writing, if it is not supported.

    `addresses` are where A, B, the bias and C are. `cublas` is a `cublas.Handle`, whose stream and workspace
    are used. `one` and `zero` are the addresses of these numbers in the host's memory.
    """
    lt = cublas.lt
    a, b, bias, c = addresses
    if lt is None or any(address % ALIGNMENT for address in addresses):
        return False
    plan = _plan(lt, sizes, len(cublas.workspace))
    if plan is None:
        return False
    of_a, of_b, of_c = plan.layouts
    with _lock:  # threads share the plan, which holds the bias's address
        _set(lt.bindings, plan.description, "BIAS_POINTER", bias, np.uint64)
        lt.bindings.matmul(
            lt.handle, plan.description, one, a, of_a, b, of_b, zero, c, of_c, c, of_c,
            plan.found.ctypes.data, cublas.workspace.data.ptr, len(cublas.workspace), cublas.stream,
        )  # fmt: skip
    return True


_lock = threading.Lock()


class Library(NamedTuple):
    """cuBLASLt's bindings, and its handle for a GPU."""

    bindings: Any
    handle: int


@lru_cache(maxsize=16)
def library(xp: Any, device: int) -> Library | None:
    """cuBLASLt for the GPU in use, number `device`; None if it or nvmath-python is not installed."""
    try:
        bindings = importlib.import_module("nvmath.bindings.cublasLt")
        return Library(bindings, bindings.create())
    except (ImportError, RuntimeError):  # RuntimeError: cuBLASLt itself is missing
        return None


@lru_cache(maxsize=MAX_PLANS)
def _plan(lt: Library, sizes: Sizes, workspace: int) -> Plan | None:
    """The first plan that cuBLASLt recommends; None if there is none."""
    bindings = lt.bindings
    plan = Plan(lt.bindings, sizes)
    count = np.zeros(1, np.int32)
    of_a, of_b, of_c = plan.layouts
    preference = bindings.matmul_preference_create()
    wanted: dict[str, tuple[int, Any]] = {"MAX_WORKSPACE_BYTES": (workspace, np.uint64)}
    wanted |= {f"MIN_ALIGNMENT_{x}_BYTES": (ALIGNMENT, np.uint32) for x in "ABCD"}
    for name, (value, dtype) in wanted.items():
        number = np.array([value], dtype)
        attribute = bindings.MatmulPreferenceAttribute[name]
        bindings.matmul_preference_set_attribute(preference, attribute, number.ctypes.data, number.nbytes)
    try:
        bindings.matmul_algo_get_heuristic(
            lt.handle, plan.description, of_a, of_b, of_c, of_c, preference,
            1, plan.found.ctypes.data, count.ctypes.data,
        )  # fmt: skip
    except bindings.cuBLASLtError:  # not supported
        return None
    finally:
        bindings.matmul_preference_destroy(preference)
    return plan if count[0] and plan.found["state"][0] == SUCCESS else None


def _set(bindings: Any, description: int, name: str, value: int, dtype: Any) -> None:
    number = np.array([value], dtype)
    attribute = bindings.MatmulDescAttribute[name]
    bindings.matmul_desc_set_attribute(description, attribute, number.ctypes.data, number.nbytes)
