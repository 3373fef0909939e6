"""Loss scaling, which keeps float16 gradients from underflowing."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any

from ..core.devices import array_module, on_cpu
from ..core.dtypes import float16
from ..core.errors import DtypeError, NonFiniteError, OptionError, StateError
from ..core.tensor import Tensor

SMALLEST_FACTOR = 2.0**-14  # below float16's smallest normal number, halving again does not help


class GradScaler:
    """Multiplies the loss by a factor and divides the gradients by it, so that float16 does not underflow.

        scaler.scale(loss).backward()
        scaler.step(optimizer)      # unscales; skips the step if a gradient is infinite or NaN
        scaler.update()             # a smaller factor after a skipped step, a larger one after many good ones

    Like torch.amp.GradScaler, except that update() raises an error once the factor falls below 2**-14:
    gradients that are still not finite have another cause. bfloat16 has the range of float32 and needs no
    scaler. With `enabled=False`, nothing is scaled.
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
        if device not in ("cpu", "cuda"):
            raise OptionError(f"device must be 'cpu' or 'cuda', got {device!r}.\nPass one of them.")
        self.enabled = enabled
        self._set(init_scale, growth_factor, backoff_factor, growth_interval, 0)
        self.found: dict[int, bool] = {}  # id of an unscaled optimizer -> whether its gradients are finite
        self.stepped: set[int] = set()  # ids of the optimizers with a step() since update()

    def _set(
        self,
        factor: float,
        growth_factor: float,
        backoff_factor: float,
        growth_interval: int,
        good_steps: int,
    ) -> None:
        numbers = (factor, growth_factor, backoff_factor)
        if not (
            all(isinstance(x, int | float) and math.isfinite(x) for x in numbers)
            and all(isinstance(n, int) for n in (growth_interval, good_steps))
            and factor > 0
            and growth_factor > 1
            and 0 < backoff_factor < 1
            and growth_interval > 0
            and good_steps >= 0
        ):
            names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
            pairs = zip(names, (*numbers, growth_interval), strict=True)
            values = ", ".join(f"{name}={' '.join(reprlib.repr(x).split())}" for name, x in pairs)
            raise OptionError(
                f"GradScaler needs init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and a positive "
                f"integer as growth_interval, got {values}.\n"
                f"Leave them at their defaults."
            )
        self.factor = float(factor)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = good_steps  # since the factor last changed

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply the loss by the factor."""
        return loss * self.factor if self.enabled else loss

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the factor; call it before clipping."""
        _check_optimizer(optimizer)
        if not self.enabled:
            return
        if id(optimizer) in self.stepped:
            raise StateError(
                "unscale_() is being called after step().\nCall it before, and update() after each step."
            )
        if id(optimizer) in self.found:
            raise StateError(
                "unscale_() has already been called on this optimizer since the last update().\n"
                "Call update() after each step."
            )
        gradients = [
            p.grad.array for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        if any(g.dtype == float16 for g in gradients):  # 1 / 65536 is subnormal in float16
            raise DtypeError(
                "float16 gradients cannot be unscaled.\n"
                "Keep the parameters in float32, and compute in float16 with autocast(dtype=mg.float16)."
            )
        for g in gradients:
            g *= 1 / self.factor
        finite = [array_module(g).isfinite(g).all() for g in gradients]
        self.found[id(optimizer)] = all(on_cpu(x, "GradScaler's check of the gradients") for x in finite)

    def step(self, optimizer: Any) -> None:
        """Unscale the gradients and call optimizer.step(), unless a gradient is infinite or NaN."""
        _check_optimizer(optimizer)
        if not self.enabled:
            return optimizer.step()
        if id(optimizer) in self.stepped:
            raise StateError(
                "step() has already been called since the last update().\nCall update() after each step."
            )
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        self.stepped.add(id(optimizer))
        if self.found[id(optimizer)]:
            optimizer.step()

    def update(self) -> None:
        """Set the factor for the next step."""
        if not self.enabled:
            return
        if not self.found:
            raise StateError("update() is called before step().\nCall it after scaler.step(optimizer).")
        finite = all(self.found.values())
        self.found = {}
        self.stepped = set()
        if not finite:
            self.factor = self.factor * self.backoff_factor
            self.good_steps = 0
            if self.factor < SMALLEST_FACTOR:
                raise NonFiniteError(
                    f"gradients are infinite or NaN even with a factor of {self.factor:.2g} on the loss.\n"
                    f"Find the first one with mg.autograd.detect_anomaly()."
                )
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.factor = self.factor * self.growth_factor
            self.good_steps = 0

    def get_scale(self) -> float:
        """Return the factor; 1 if the scaler is disabled."""
        return self.factor if self.enabled else 1.0

    def state_dict(self) -> dict[str, float]:
        """Return the state under PyTorch's keys; empty if the scaler is disabled."""
        if not self.enabled:
            return {}
        return {
            "scale": self.factor,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self.good_steps,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the state of an enabled scaler of minigrad or PyTorch."""
        if not self.enabled:
            return
        if not isinstance(state_dict, Mapping):
            raise DtypeError(
                f"the state of a scaler must be a dictionary, got {type(state_dict).__name__}.\n"
                f"Load the state_dict() of an enabled scaler."
            )
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise StateError(
                f"this is not the state of a scaler: it has no {', '.join(sorted(missing))}.\n"
                f"Load the state_dict() of an enabled scaler."
            )
        self._set(*(state_dict[key] for key in self.state_dict()))


def _check_optimizer(optimizer: Any) -> None:
    if not hasattr(optimizer, "param_groups"):
        raise DtypeError(
            f"GradScaler needs an optimizer, got {type(optimizer).__name__}.\nPass the optimizer itself."
        )
