"""The best validation score so far, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import UserError, did_you_mean
from ..tasks.metrics import Metric


class BestScore:
    """The best value so far of the validation score `monitor`, and the number of validations since then."""

    def __init__(self, monitor: str, patience: int, metric: Metric) -> None:
        self.monitor = monitor
        self.patience = patience
        self.metric = metric
        self.sign = 1 if metric.higher_is_better else -1
        self.value = -self.sign * math.inf
        self.waited = 0

    def update(self, scores: Mapping[str, float]) -> bool:
        """Update with the scores of a validation. Return whether it is the best validation so far."""
        self.check(scores)
        value = scores[self.monitor]
        better = self.sign * value > self.sign * self.value
        self.value, self.waited = (value, 0) if better else (self.value, self.waited + 1)
        return better

    @property
    def is_out_of_patience(self) -> bool:
        """Whether `patience` validations have passed without a better score."""
        return 0 < self.patience <= self.waited

    def check(self, scores: Mapping[str, float]) -> None:
        """Raise a UserError if `monitor` is not in `scores`, or it is unknown whether higher is better."""
        if self.monitor not in scores:
            raise UserError(
                f"validations have no score {self.monitor!r} to monitor."
                f"{did_you_mean(self.monitor, scores)}\nChoose one of {', '.join(scores)}"
                f"; scores of generated texts need --validation-texts N."
            )
        if self.metric.higher_is_better is None:
            raise UserError(
                f"{self.monitor!r} cannot be monitored: the task does not say whether higher is better.\n"
                f'Add "{self.monitor}": Metric("{self.monitor}", higher_is_better=...) to its `metrics`.'
            )

    def state_dict(self) -> dict[str, Any]:
        return {"monitor": self.monitor, "value": self.value, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict`. It is ignored if it is for another score, or has no best value."""
        if state["monitor"] == self.monitor and state["value"] is not None:
            self.value, self.waited = state["value"], state["waited"]
