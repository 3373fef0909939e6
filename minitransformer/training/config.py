"""The settings of training."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad import optim

from ..base_config import Config
from ..errors import UserError, check_choice, check_range

SCHEDULES = ("inverse_sqrt", "paper", "cosine", "linear", "wsd", "constant")
OPTIMIZERS = ("adamw", "muon", "sgd")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class TrainConfig(Config):
    """Settings of a training run. Batch sizes belong to the task's data.

    >>> from minitransformer import TrainConfig
    >>> config = TrainConfig(steps=1000, lr=1e-3, warmup_steps=100, schedule="cosine")
    >>> config.learning_rate(50), config.learning_rate(101)
    (0.0004950495049504951, 0.001)
    """

    steps: int = 1000  # number of batches
    epochs: int = 0  # passes over the training data; 0: train for `steps` instead
    optimizer: str = "adamw"  # or "muon" (AdamW for all but hidden matrices), "sgd"
    momentum: float | None = None  # of "sgd" and "muon"; None: 0.9 for "sgd", 0.95 for "muon"
    lr: float = 1e-3  # peak of the schedule
    schedule: str = "inverse_sqrt"  # or "paper" (sets the peak), "cosine", "linear", "wsd", "constant"
    warmup_steps: int = 100  # steps in which the learning rate rises to its peak
    decay_steps: int = 0  # of "wsd" (warm-up, stable, decay): length of the decay; 0: a fifth of the steps
    min_lr: float = 0.0  # final rate of "cosine", "linear" and "wsd"
    betas: tuple[float, float] = (0.9, 0.98)  # of AdamW (section 5.3)
    adam_eps: float = 1e-9
    weight_decay: float = 0.0  # of matrices; biases and norms have none
    clip_norm: float = 1.0  # maximum global norm of the gradients; 0: no clipping
    label_smoothing: float = 0.1  # section 5.4
    precision: str = "float32"  # of matmuls; on a GPU also "tf32", "bfloat16", "float16"; weights are float32
    micro_batches: int = 1  # gradient accumulation steps, to save memory
    seed: int = 0  # of initial weights, batches and dropout
    log_every: int = 20  # steps between log entries
    validate_every: int = 200  # steps between validations; 0: once an epoch, 50 to 1,000 steps apart
    checkpoint_every: int = 200  # steps between checkpoints
    keep: int = 2  # number of latest checkpoints to keep, besides the best
    freeze: str = ""  # patterns of parameters that are not trained: "embedding.*,encoder.layers.[0-3].*"
    lora_rank: int = 0  # train adapters of this rank instead of the weights (Hu et al. 2021); 0: none
    lora_alpha: float = 16.0  # adapters are scaled by lora_alpha / lora_rank
    lora_targets: str = "q,v"  # adapted matrices: q, k, v or in_proj (all three), out_proj, linear1 to 3
    ema_decay: float = 0.0  # decay of the weights' moving average, such as 0.999; 0: no average
    monitor: str = "loss"  # the validation score that chooses the best checkpoint, such as "bleu"
    patience: int = 0  # stop after this many validations without a better score; 0: never
    validation_texts: int = 0  # examples for which each validation generates texts and scores them (BLEU)
    samples: int = 0  # predictions that each validation prints and logs

    def __post_init__(self) -> None:
        for name, known in (
            ("schedule", SCHEDULES), ("optimizer", OPTIMIZERS), ("precision", PRECISIONS),
        ):  # fmt: skip
            check_choice(name, getattr(self, name), known)
        check_range(self, "steps micro_batches log_every checkpoint_every keep", 1)
        check_range(self, "seed lr warmup_steps decay_steps min_lr adam_eps weight_decay clip_norm", 0)
        check_range(self, "epochs validate_every patience validation_texts samples lora_rank lora_alpha", 0)
        check_range(self, "label_smoothing momentum ema_decay", 0, 1)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas = {self.betas} is out of range.\nChoose two values >= 0 and < 1.")

    @property
    def momentum_or_default(self) -> float:
        """The momentum of "sgd" or "muon", with the defaults 0.9 and 0.95."""
        return {"muon": 0.95}.get(self.optimizer, 0.9) if self.momentum is None else self.momentum

    def learning_rate(self, step: int) -> float:
        """The learning rate of `step`, counted from 1."""
        lr = self.lr
        steps = self.steps
        warmup = self.warmup_steps
        min_lr = self.min_lr
        match self.schedule:
            case "inverse_sqrt":
                return optim.inverse_sqrt_schedule(step, lr, warmup)
            case "cosine":
                return optim.cosine_schedule(step - 1, lr, steps, warmup, min_lr)
            case "linear":
                return optim.linear_schedule(step - 1, lr, steps, warmup, min_lr)
            case "wsd":
                return optim.wsd_schedule(step - 1, lr, steps, warmup, self.decay_steps or steps // 5, min_lr)
            case "paper":
                raise UserError(
                    "the learning rate of schedule 'paper' depends on the model's width.\n"
                    "Use `resolve` of minitransformer/training/schedules.py, as the Trainer does."
                )
        return lr * min(1.0, step / max(warmup, 1))
