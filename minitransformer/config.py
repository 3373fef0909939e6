"""The training configuration, and checks that the models' configurations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from minigrad import optim

from .errors import UserError, check_choice, check_integer, check_range, nearest

SCHEDULES = ("inverse_sqrt", "paper", "cosine", "linear", "wsd", "constant")
OPTIMIZERS = ("adamw", "muon", "sgd")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")

MAX_LAYERS = 1000  # even tiny ones take seconds for each step


class Config:
    """Base of the configurations, frozen dataclasses: an unknown field is refused with the nearest names."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *values: Any, **fields: Any) -> Self:
        for name in fields:
            if name not in cls.__dataclass_fields__:
                known = list(cls.__dataclass_fields__)
                raise UserError(
                    f"{cls.__name__} has no field {name!r}.{nearest(name, known)}\n"
                    f"The fields are {', '.join(known)}."
                )
        return super().__new__(cls)


def head_sizes(
    d_model: int, num_heads: int, num_kv_heads: int | None = None, head_dim: int | None = None,
    names: tuple[str, str, str] = ("d_model", "num_heads", "num_kv_heads"),
) -> tuple[int, int]:  # fmt: skip
    """(num_kv_heads, head_dim), checked; by default as many as heads, and d_model / num_heads."""
    width, heads, kv_heads = names
    check_integer(heads, num_heads, 1)
    if head_dim is not None:
        check_integer("head_dim", head_dim, 1)
    elif d_model % num_heads:
        raise UserError(
            f"{width}={d_model} is not divisible by {heads}={num_heads}.\n"
            f"Choose a multiple of {num_heads}, or another number of heads."
        )
    if num_kv_heads is not None:
        check_integer(kv_heads, num_kv_heads, 1)
        if num_heads % num_kv_heads:
            raise UserError(
                f"{heads}={num_heads} is not divisible by {kv_heads}={num_kv_heads}.\n"
                f"A head of keys and values serves a group of heads: choose a divisor of {num_heads}."
            )
    return num_kv_heads or num_heads, head_dim or d_model // num_heads


def check_heads(
    config: object, width: str, heads: str, kv_heads: str | None = None, head_dim: int | None = None
) -> None:
    """`head_sizes` of a configuration's fields, for its errors."""
    groups = getattr(config, kv_heads) if kv_heads else None
    head_sizes(
        getattr(config, width), getattr(config, heads), groups, head_dim, (width, heads, kv_heads or "")
    )


@dataclass(frozen=True)
class TrainConfig(Config):
    """How a model is trained. Batch sizes belong to the task."""

    steps: int = 1000  # number of batches
    epochs: int = 0  # passes over the training data, instead of steps; 0: `steps` counts
    optimizer: str = "adamw"  # "muon" (with AdamW for what it does not take), "sgd"
    momentum: float = 0.9  # of "sgd" and "muon"
    lr: float = 1e-3  # peak of the schedule
    schedule: str = (
        "inverse_sqrt"  # "paper" (section 5.3: that with its own peak), "cosine", "linear", "wsd", "constant"
    )
    warmup_steps: int = 100
    decay_steps: int = 0  # of "wsd" (warm-up, stable, decay): the last steps, whose rate falls; 0: a fifth
    min_lr: float = 0.0  # end of "cosine", "linear" and "wsd"
    betas: tuple[float, float] = (0.9, 0.98)  # of AdamW, as adam_eps (section 5.3)
    adam_eps: float = 1e-9
    weight_decay: float = 0.0  # of matrices only
    clip_norm: float = 1.0  # maximum norm of all gradients together; 0: no clipping
    label_smoothing: float = 0.1  # section 5.4
    precision: str = (
        "float32"  # of matmuls; on a GPU also "tf32", "bfloat16", "float16"; weights stay float32
    )
    micro_batches: int = 1  # gradient accumulation steps, to save memory
    seed: int = 0  # of initial weights, batches and dropout; the same seed gives the same run
    log_every: int = 20  # steps
    validate_every: int = 200  # steps
    checkpoint_every: int = 200  # steps
    keep: int = 2  # newest checkpoints that are kept, beside the best
    ema_decay: float = 0.0  # of an exponential moving average of the weights, such as 0.999; 0: none
    monitor: str = "loss"  # the validation score that chooses the best checkpoint, such as "bleu"
    patience: int = 0  # stop after so many validations without a better score; 0: never
    validation_texts: int = 0  # examples that each validation generates a text for, and scores (BLEU, ...)
    samples: int = 0  # examples whose results each validation prints and logs

    def __post_init__(self) -> None:
        for name, known in (
            ("schedule", SCHEDULES), ("optimizer", OPTIMIZERS), ("precision", PRECISIONS),
        ):  # fmt: skip
            check_choice(name, getattr(self, name), known)
        check_range(self, "steps micro_batches log_every validate_every checkpoint_every keep", 1)
        check_range(self, "seed lr warmup_steps decay_steps min_lr adam_eps weight_decay clip_norm", 0)
        check_range(self, "epochs patience validation_texts samples", 0)
        check_range(self, "label_smoothing momentum ema_decay", 0, 1)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas = {self.betas} is out of range.\nChoose two values >= 0 and < 1.")

    def learning_rate(self, step: int) -> float:
        """The learning rate of `step`, counted from 1."""
        lr, steps, warmup, least = self.lr, self.steps, self.warmup_steps, self.min_lr
        match self.schedule:
            case "inverse_sqrt":
                return optim.inverse_sqrt_schedule(step, lr, warmup)
            case "cosine":
                return optim.cosine_schedule(step - 1, lr, steps, warmup, least)
            case "linear":
                return optim.linear_schedule(step - 1, lr, steps, warmup, least)
            case "wsd":
                return optim.wsd_schedule(step - 1, lr, steps, warmup, self.decay_steps or steps // 5, least)
            case "paper":
                raise UserError(
                    "the rate of the schedule 'paper' is a function of the model's width.\n"
                    "Use `resolve` of minitransformer/training/schedules.py, as the Trainer does."
                )
        return lr * min(1.0, step / max(warmup, 1))
