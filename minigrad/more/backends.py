"""Settings of torch.backends; only `cuda.matmul.allow_tf32` has an effect."""

from __future__ import annotations

from types import SimpleNamespace

from ..core.devices import is_available
from ..core.precision import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["cuda", "cudnn", "mps"]


class _Matmul:
    """Settings of float32 matrix products on a GPU."""

    @property
    def allow_tf32(self) -> bool:
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


cuda = SimpleNamespace(matmul=_Matmul())
cudnn = SimpleNamespace(
    benchmark=False, deterministic=False, enabled=True, allow_tf32=True, is_available=is_available
)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
