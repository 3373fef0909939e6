"""Builds the optimizer that a TrainConfig names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minigrad import Tensor, nn, optim

from ..errors import UserError
from ..layers.embeddings import TokenEmbedding
from ..layers.lora import Adapter
from ..layers.positions import Positions
from ..layers.relative_positions import RelativePositionBias
from .config import TrainConfig

# Muon orthogonalizes a matrix; an adapter is a product of two matrices, to which this does not apply
NOT_FOR_MUON = (nn.Embedding, TokenEmbedding, Positions, RelativePositionBias, Adapter)
OUTPUTS = ("output", "head")  # the names of models' output layers


def build_optimizer(model: nn.Module, config: TrainConfig) -> optim.Optimizer:
    """Build the optimizer that the config names, for the model's parameters that are not frozen."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = decay_groups(trained, config.weight_decay)
    match config.optimizer:
        case "sgd":
            return optim.SGD(groups, config.lr, config.momentum_or_default)
        case "muon":
            return MuonAdamW(model, config)
    return optim.AdamW(groups, config.lr, config.betas, config.adam_eps)


def decay_groups(parameters: Sequence[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: matrices with weight decay, and biases and norms without."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class MuonAdamW(optim.AdamW):
    """Muon for the matrices of hidden layers, and AdamW for all other parameters, at the same learning rate.

    Muon's updates are scaled to the size of AdamW's (`match_rms_adamw`).
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        hidden = hidden_matrices(model)
        ids = set(map(id, hidden))
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in ids]
        groups = decay_groups(rest, config.weight_decay)
        if not groups:
            raise UserError(
                'optimizer = "muon" trains matrices, but only matrices are left unfrozen.\n'
                'Leave other parameters unfrozen too, or choose optimizer = "adamw".'
            )
        super().__init__(groups, config.lr, config.betas, config.adam_eps)
        self.muon: optim.Muon | None = None
        if hidden:
            decay = config.weight_decay
            momentum = config.momentum_or_default
            self.muon = optim.Muon(hidden, config.lr, decay, momentum, adjust_lr_fn="match_rms_adamw")
            self.param_groups += self.muon.param_groups

    def owner_of(self, group: Mapping[str, Any]) -> optim.Optimizer:
        """The optimizer that updates a parameter group."""
        return self.muon if self.muon is not None and group is self.muon.param_groups[0] else self

    def update_all(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Update the parameters of the group with the optimizer that owns it."""
        if self.muon is not None and self.owner_of(group) is self.muon:
            self.muon.state = self.state
            self.muon.uploaded = self.uploaded
            self.muon.update_all(params, group)
        else:
            super().update_all(params, group)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trained matrices that are not in embeddings, adapters or output layers (`output`, `head`)."""
    outer = set()
    for name, module in model.named_modules():
        if isinstance(module, NOT_FOR_MUON) or name.split(".")[-1] in OUTPUTS:
            outer |= set(map(id, module.parameters()))
    return [p for p in model.parameters() if p.ndim == 2 and p.requires_grad and id(p) not in outer]
