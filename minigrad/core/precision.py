"""Mixed precision: which operations compute in bfloat16 or float16.

    with mg.autocast(dtype=mg.bfloat16):
        loss = loss_of(model(x), y)
    loss.backward()

Weights and optimizer states stay float32 (Micikevicius et al. 2018, "Mixed Precision Training"). Matrix
products, which take most of the time, multiply rounded numbers and accumulate in float32. Steep functions and
long sums (softmax, losses, norms of batches and groups) are computed in float32, the rest in the dtype of
their inputs. Each op declares this in its `autocast` attribute. The precisions are those of torch.amp for
CUDA, on both devices, with three exceptions. Activations stay in 16 bits between layers: embeddings are
rounded, and layer_norm and rms_norm, whose statistics are float32 in any case, return the dtype of their
input. A few ops that PyTorch leaves in their inputs' dtype use float32 here. dot and tensordot count as
matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import HALF, as_dtype, bfloat16, float32
from .errors import OptionError
from .modes import Switch, modes


class autocast(Switch):
    """Computes matrix products in `dtype` and steep functions in float32 (torch.autocast).

    Embeddings are rounded to `dtype`, and layer_norm and rms_norm return the dtype of their input. It applies
    to both devices: on a CPU it is not faster, but shows the effect of a GPU's rounding.

    >>> a = mg.ones(2, 2)
    >>> with mg.autocast("cpu", dtype=mg.bfloat16):
    ...     print((a @ a).dtype)
    bfloat16
    """

    def __init__(self, device_type: str = "cuda", dtype: Any = bfloat16, enabled: bool = True) -> None:
        if not isinstance(device_type, str) or device_type not in ("cpu", "cuda"):
            raise OptionError(
                f"device_type must be 'cpu' or 'cuda', got {device_type!r}.\nWrite autocast(dtype=...)."
            )
        if enabled and as_dtype(dtype) not in HALF:
            raise OptionError(f"dtype must be bfloat16 or float16, got {dtype}.\nPass one of them.")
        super().__init__(modes, "autocast_dtype", as_dtype(dtype) if enabled else None)


def dtype_of(precision: str | None) -> np.dtype | None:
    """The dtype in which an op with this `autocast` attribute computes; None for its inputs' dtype."""
    return modes.autocast_dtype if precision == "lower" else float32 if precision == "float32" else None


class _Float32Matmul:
    precision = "highest"


float32_matmul = _Float32Matmul()


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products on a GPU: "highest" is float32, "high" is TF32 (10 bits).

    Both accumulate in float32. On the CPU, products are always float32 (torch.set_float32_matmul_precision).
    """
    if precision not in ("highest", "high"):
        raise OptionError(f"the precision must be 'highest' or 'high', got {precision!r}.\nPass one of them.")
    float32_matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """The setting of `set_float32_matmul_precision`."""
    return float32_matmul.precision
