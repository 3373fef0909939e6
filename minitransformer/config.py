"""The training configuration, and checks that the models' configurations share."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from minigrad import optim

from .errors import UserError, check_choice, check_integer, check_range, nearest, short

SCHEDULES = ("inverse_sqrt", "paper", "cosine", "linear", "wsd", "constant")
OPTIMIZERS = ("adamw", "muon", "sgd")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")

MAX_LAYERS = 1000  # even tiny ones take seconds for each step

C = TypeVar("C")
KINDS: dict[Any, tuple[Any, str]] = {  # of an annotation: the types that fit, and what they are called
    bool: (bool | np.bool_, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a string"),
    NoneType: (NoneType, "None"),
}


class Config:
    """Base of the configurations, frozen dataclasses. An unknown field is refused with the nearest names, and
    a value that does not fit its field's annotation."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        annotations = _annotations(cls)  # type: ignore[arg-type]  # mypy takes type[Self] for unhashable
        for name, value in [*zip(annotations, values), *named.items()]:  # noqa: B905 (Python counts them)
            if name not in annotations:
                raise UserError(
                    f"{cls.__name__} has no field {name!r}.{nearest(name, annotations)}\n"
                    f"The fields are {', '.join(annotations)}."
                )
            if not fits(value, annotations[name]):
                default = cls.__dataclass_fields__[name].default
                other = "" if default is MISSING else f", or leave it out: the default is {default!r}"
                raise UserError(
                    f"{name} must be {describe(annotations[name])}, got {short(value)}.\nPass one{other}."
                )
        return super().__new__(cls)


@cache
def _annotations(cls: type) -> dict[str, Any]:
    """The annotation of each field of a dataclass."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value fits an annotation made of KINDS. Other annotations are not checked."""
    parts = get_args(annotation)
    if isinstance(annotation, UnionType):
        return any(fits(value, part) for part in parts)
    if get_origin(annotation) is tuple and Ellipsis not in parts:
        return isinstance(value, tuple | list) and len(value) == len(parts) and all(map(fits, value, parts))
    if annotation not in KINDS:
        return True
    return isinstance(value, KINDS[annotation][0]) and (annotation is bool or not isinstance(value, bool))


def describe(annotation: Any) -> str:
    """An annotation made of KINDS in words, for errors."""
    parts = list(map(describe, get_args(annotation)))
    if isinstance(annotation, UnionType):
        return " or ".join(parts)
    return KINDS[annotation][1] if annotation in KINDS else f"({', '.join(parts)})"


def check_config(config: C, expected: type) -> C:
    """The configuration; a UserError if it is not of the expected class."""
    if not isinstance(config, expected):
        name, is_class = expected.__name__, isinstance(config, type)
        given = f"the class {config.__name__}" if is_class else f"a {type(config).__name__}"  # type: ignore[attr-defined]
        how = "**settings" if isinstance(config, dict) else "..."
        raise UserError(f"the configuration must be a {name}, got {given}.\nPass {name}({how}).")
    return config


def head_sizes(
    d_model: int, num_heads: int, num_kv_heads: int | None = None, head_dim: int | None = None,
    names: tuple[str, str, str] = ("d_model", "num_heads", "num_kv_heads"),
) -> tuple[int, int]:  # fmt: skip
    """(num_kv_heads, head_dim), checked; by default as many as heads, and d_model / num_heads."""
    width, heads, kv_heads = names
    check_integer(heads, num_heads, 1)
    if head_dim is not None:
        check_integer("head_dim", head_dim, 1, 2**63)
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
    momentum: float | None = None  # of "sgd" and "muon"; by default 0.9 and 0.95
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

    @property
    def momentum_or_default(self) -> float:
        """The momentum of "sgd" or "muon"."""
        return {"muon": 0.95}.get(self.optimizer, 0.9) if self.momentum is None else self.momentum

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
