"""Averages of weights: a moving average while a model is trained, and the mean of several checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minigrad import Tensor, nn, no_grad
from minigrad.core.devices import on_device


class MovingAverage:
    """An exponential moving average of a model's parameters (Polyak and Juditsky 1992).

    After step t it is d * average + (1 - d) * weights, with d = min(decay, (t - 1) / (t + 8)). The initial
    weights do not count, and the weights of the first steps soon count little.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.reset()

    def reset(self) -> None:
        """Set the average to the current weights."""
        self.averages = {name: p.array.copy() for name, p in self.parameters.items()}

    def update(self, step: int) -> None:
        """Update the average with the weights after this step."""
        rest = 1 - min(self.decay, (step - 1) / (step + 8))
        for name, p in self.parameters.items():
            average = self.averages[name]
            difference = p.array - average
            difference *= rest
            average += difference

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """A context in which the model's parameters are the averages; on exit its weights are restored."""
        weights = {name: p.array.copy() for name, p in self.parameters.items()}
        try:
            self._assign(self.averages)
            yield
        finally:
            self._assign(weights)

    @no_grad()
    def _assign(self, arrays: Mapping[str, Any]) -> None:
        for name, p in self.parameters.items():
            p.copy_(Tensor(arrays[name]))

    def state_dict(self) -> dict[str, Tensor]:
        """The model's state, with the averages in place of its parameters."""
        names = {id(p): name for name, p in self.parameters.items()}  # tied parameters occur twice
        state = self.model.state_dict(keep_vars=True)
        return {
            name: Tensor(self.averages[names[id(tensor)]]) if id(tensor) in names else tensor.detach()
            for name, tensor in state.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the averages from a `state_dict` of the same model."""
        self.averages = {
            name: on_device(np.array(state[name].numpy(), p.array.dtype), p.device)
            for name, p in self.parameters.items()
        }


def mean_of(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of state dicts of one model, computed in float64. Integer tensors are the last state's."""
    mean = {}
    for name, last in states[-1].items():
        if last.is_floating_point():
            arrays = [state[name].numpy() for state in states]
            mean[name] = Tensor(np.mean(arrays, axis=0, dtype=np.float64).astype(last.numpy().dtype))
        else:
            mean[name] = last
    return mean
