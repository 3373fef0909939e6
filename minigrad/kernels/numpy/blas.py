"""The BLAS libraries that NumPy uses, and their threads."""

from __future__ import annotations

from typing import Any


def blas_libraries() -> list[dict[str, Any]]:
    """Return threadpoolctl's description of each loaded BLAS library, NumPy's first."""
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return sorted(found, key=lambda library: "numpy" not in library["filepath"])


def blas_threads() -> int:
    """Return the number of threads that matrix products use."""
    return max((library["num_threads"] for library in blas_libraries()), default=1)
