"""Kernels: the fast versions of composite ops, one package for each kind of array.

A composite op (softmax, layer_norm, attention, ...) has a readable definition made of other ops. A kernel of
the same name computes the same value in few passes over memory. It is an ordinary function: it takes the
arrays and settings of the op, and returns its value and its gradients, as every rule does (see
`minigrad.ops.op`). Each of its gradients is an array of its own, never shared by two inputs. It may return
None for arrays that it does not take.

    cpu          NumPy
    jit          loops compiled by numba, where it is installed; what it lacks comes from cpu
    cuda         CuPy and cuBLAS: only what has no readable definition, or is one call of a library
    cuda.fused   CUDA C, and attention also through cuDNN; what it lacks comes from cuda

Where there is no kernel for its arrays, an op runs its readable definition. `use` chooses the package.
"""

from . import numpy as cpu
from .matmul import matmul
from .selection import GPU_NAMES, NAMES, active, kernels, use

__all__ = ["GPU_NAMES", "NAMES", "active", "cpu", "kernels", "matmul", "use"]
