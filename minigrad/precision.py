"""Mixed precision: which operations compute in bfloat16 or float16, and how gradients survive it.

    with mg.autocast(dtype=mg.bfloat16):
        loss = loss_of(model(x), y)
    loss.backward()

Weights and optimizer states stay float32 (Micikevicius et al. 2018, "Mixed Precision Training"). Products,
where the time goes, are of rounded numbers and add up in float32; what is steep or adds up much (softmax,
norms, losses, sums) is computed in float32; the rest takes what comes. The lists are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from .autograd import grad_mode
from .devices import HALF, array_module, as_dtype, bfloat16, float32
from .errors import OptionError, StateError

if TYPE_CHECKING:
    from .tensor import Tensor

LOW = frozenset((
    "matmul", "linear", "convolution", "convolution_input", "convolution_weight",
    "scaled_dot_product_attention", "multi_head_attention",
))  # fmt: skip
FULL = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "power", "square",
    "reciprocal", "rsqrt", "hypot", "acos", "asin", "atan2", "sinh", "cosh", "tan", "erfinv", "lgamma",
    "softmax", "log_softmax", "logsumexp", "softplus", "layer_norm", "rms_norm", "cross_entropy",
    "bernoulli_loss", "sum", "mean", "prod", "variance", "p_norm", "cumsum", "cumprod", "logcumsumexp",
))  # fmt: skip


class autocast:
    """Within it, or in what it decorates, products compute in `dtype`, steep functions in float32.

    torch.autocast, for both devices; the CPU gains no speed from it, and shows what a GPU's rounding does.
    """

    def __init__(self, device_type: str = "cuda", dtype: Any = bfloat16, enabled: bool = True) -> None:
        if device_type not in ("cpu", "cuda"):
            raise OptionError(
                f"autocast is for 'cpu' or 'cuda', got {device_type!r}.\nWrite autocast(dtype=...)."
            )
        self.dtype = as_dtype(dtype) if enabled else None
        if enabled and self.dtype not in HALF:
            raise OptionError(f"autocast computes in bfloat16 or float16, got {dtype}.\nPass one of them.")

    def __enter__(self) -> None:
        self.before, grad_mode.autocast = grad_mode.autocast, self.dtype

    def __exit__(self, *exc: object) -> None:
        grad_mode.autocast = self.before

    def __call__(self, function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with autocast(dtype=self.dtype, enabled=self.dtype is not None):
                return function(*args, **kwargs)

        return wrapped


def precision_of(name: str) -> np.dtype | None:
    """What an op's floating inputs are to be under autocast; None: what they are."""
    return grad_mode.autocast if name in LOW else float32 if name in FULL else None


class GradScaler:
    """Keeps float16's gradients above its smallest number: the loss is multiplied, the gradients divided.

        scaler.scale(loss).backward()
        scaler.step(optimizer)      # divides; skips the step where a gradient is infinite or NaN
        scaler.update()             # a smaller factor after such a step, a larger one after many good ones

    torch.amp.GradScaler. bfloat16 reaches as far as float32 and needs none; not `enabled` does nothing.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (init_scale > 0 and growth_factor > 1 and 0 < backoff_factor < 1 and growth_interval > 0):
            raise OptionError(
                f"a scaler grows by more than 1 and backs off by less, got growth_factor={growth_factor}, "
                f"backoff_factor={backoff_factor}, growth_interval={growth_interval}, "
                f"init_scale={init_scale}.\nLeave them at their defaults."
            )
        self.factor, self.growth_factor, self.backoff_factor = init_scale, growth_factor, backoff_factor
        self.growth_interval, self.enabled = growth_interval, enabled
        self.good_steps = 0  # since the factor last changed
        self.found: dict[
            int, bool
        ] = {}  # optimizer whose gradients were divided -> whether one is not finite

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.factor if self.enabled else loss

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters: before they are clipped."""
        if not self.enabled:
            return
        if id(optimizer) in self.found:
            raise StateError("unscale_() was called before for this step.\nCall update() at a step's end.")
        gradients = [
            p.grad.data for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        for g in gradients:
            g *= 1 / self.factor
        self.found[id(optimizer)] = not all(array_module(g).isfinite(g).all() for g in gradients)

    def step(self, optimizer: Any) -> None:
        """The optimizer's step, unless a gradient is infinite or NaN."""
        if self.enabled and id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if not self.found.get(id(optimizer), False):
            optimizer.step()

    def update(self) -> None:
        """Choose the next step's factor."""
        if not self.found:
            return
        if any(self.found.values()):
            self.factor, self.good_steps = self.factor * self.backoff_factor, 0
        else:
            self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.factor, self.good_steps = self.factor * self.growth_factor, 0
        self.found = {}

    def get_scale(self) -> float:
        return self.factor if self.enabled else 1.0

    def state_dict(self) -> dict[str, float]:
        return {"scale": self.factor, "good_steps": self.good_steps}

    def load_state_dict(self, state_dict: Mapping[str, float]) -> None:
        self.factor, self.good_steps = state_dict["scale"], int(state_dict["good_steps"])


class _Products:
    precision = "highest"


products = _Products()


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest": products of float32 are of float32; "high": on a GPU, of numbers of 10 bits (TF32).

    torch.set_float32_matmul_precision; sums are float32 in both. The CPU knows the first only.
    """
    if precision not in ("highest", "high"):
        raise OptionError(
            f"products are of 'highest' or 'high' precision, got {precision!r}.\nPass one of them."
        )
    products.precision = precision


def get_float32_matmul_precision() -> str:
    return products.precision
