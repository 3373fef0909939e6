"""Plain loops compiled by numba, if it is installed (the extra `fast`); everything else uses NumPy's kernels.

A loop reads like its formula and passes over memory once. It computes in float32; for other dtypes and
unsupported layouts a kernel returns None.
"""

import os
from importlib.util import find_spec

from ...core.errors import DependencyError, MinigradError
from ...core.kernels import KernelSet


def register() -> None:
    """Import the kernels and numba, which takes a second."""
    from . import activations, attention, indexing, losses, normalization, optimizers, quantized, recurrent


def load() -> None:
    """Register the kernels. Raises a DependencyError if numba is missing or cannot be loaded."""
    if not find_spec("numba"):
        raise DependencyError(
            "the kernels 'jit' need numba, which is not installed.\nRun pip install 'minitransformer[fast]'."
        )
    try:
        register()
    except MinigradError:
        raise
    except Exception as error:  # numba raises errors of any type for its environment variables
        reason = str(error).partition("\n")[0]
        read = [name for name in sorted(os.environ) if name.startswith(("NUMBA_", "SOURCE_DATE_EPOCH"))]
        known = ", ".join(f"{name} (now {os.environ[name][:40]!r})" for name in read)
        fix = f"Correct or unset {known}" if known else "Reinstall it: pip install --force-reinstall numba"
        raise DependencyError(
            f"the kernels 'jit' cannot be loaded: {reason.rstrip('.')}.\n"
            f"{fix}; or use NumPy's kernels: mg.kernels.use('numpy')."
        ) from error


KernelSet(
    "numba", "cpu", load,
    falls_back_to="numpy", is_default=find_spec("numba") is not None, public_name="jit",
)  # fmt: skip
