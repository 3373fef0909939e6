"""Tasks for your own arrays or pairs, to use with a `Trainer` in your own program.

    task = ArrayTask((x, y), loss=F.mse_loss, batch_size=32)
    Trainer(model, task, TrainConfig(steps=500), Path("runs/mine")).train()

They are not registered, so recipes and the command line cannot use them; `base.py` shows tasks that they can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import Tensor, no_grad

from ..base_config import Config
from ..data.batching import IGNORE, Batch, is_classes
from ..data.splits import HELD_OUT, random_indices, split_at
from ..errors import UserError, check_integer, counted, truncated_repr
from .base import Task
from .translation import Translation


@dataclass(frozen=True)
class BatchSize(Config):
    """The data settings of `ArrayTask` (`batch_size`) and `PairTask` (`max_tokens`)."""

    batch_size: int = 32
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        check_integer("batch_size", self.batch_size, 1)


class ArrayTask(Task):
    """A task on arrays of equal length: the inputs, then the targets. The model gets the inputs as Tensors.

    `loss` takes the model's output and the targets, and returns the mean over examples, like the functions of
    `nn.functional`. The default is the cross-entropy for integer targets (logits on the last axis, label
    smoothing from the TrainConfig, targets of -100 ignored), and the mean squared error for other targets.
    `validation` has the same kinds of arrays as `arrays`. By default, a tenth of the examples is held out, at
    most 500; with fewer than 10 examples, the training examples are scored. Batches depend only on the seed
    and the step, so a resumed run ends with the same weights.

    >>> from minitransformer import ArrayTask
    >>> x, labels = np.zeros((8, 3), "float32"), np.arange(8) % 2
    >>> task = ArrayTask((x, labels), batch_size=4)  # integer labels: cross-entropy
    """

    def __init__(
        self,
        arrays: Sequence[Any],
        loss: Callable[[Any, Any], Tensor] | None = None,
        batch_size: int = 32,
        validation: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.arrays = _arrays(arrays, "arrays")
        self.loss_function = loss
        n = len(self.arrays[0])
        if validation is None:
            held_out_rows = random_indices(n, min(HELD_OUT, n // 10))
            train = np.setdiff1d(np.arange(n), held_out_rows)
            rows = held_out_rows if len(held_out_rows) else np.arange(n)
        else:
            held_out = _arrays(validation, "validation")
            if len(held_out) != len(self.arrays):
                raise UserError(
                    f"validation has {counted(len(held_out), 'array')}, expected {len(self.arrays)}.\n"
                    f"Pass the same kinds of arrays as for training."
                )
            train = np.arange(n)
            rows = n + np.arange(len(held_out[0]))
            both = zip(self.arrays, held_out, strict=True)
            self.arrays = tuple(np.concatenate(pair) for pair in both)
        super().__init__(BatchSize(batch_size), train.tolist(), rows.tolist(), seed=seed)

    def collate(self, examples: Sequence[int], step: int) -> Batch:
        """Return the examples at these indices as a batch with "input0", "input1", ..., and "target"."""
        *inputs, target = (array[np.asarray(examples)] for array in self.arrays)
        batch = Batch({f"input{i}": array for i, array in enumerate(inputs)}, target=target)
        if self.loss_function is not None:
            batch["counts"] = np.ones(len(target), np.int64)  # the loss is a mean over examples
        return batch

    def logits(self, model: Any, batch: Batch) -> Any:
        """Return the model's output, or the output's `logits` if it is not a Tensor."""
        inputs = [batch[f"input{i}"] for i in range(len(self.arrays) - 1)]
        out = model(*map(_tensor, inputs))
        return out if isinstance(out, Tensor) else out.logits

    def loss(self, model: Any, batch: Batch, label_smoothing: float) -> Tensor:
        if self.loss_function is None:
            return super().loss(model, batch, label_smoothing)
        target = _tensor(batch["target"])
        return self.loss_function(self.logits(model, batch), target) * len(target)

    @no_grad()
    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """Return the mean loss and, if the targets are classes and the outputs logits, the accuracy."""
        if self.loss_function is None:
            return super().score(model, examples)
        total = 0.0
        correct: list[bool] = []
        for batch in self.batches(examples):
            out = self.logits(model, batch)
            target = batch["target"]
            total += (self.loss_function(out, _tensor(target)) * len(target)).item()
            if is_classes(target) and out.ndim == target.ndim + 1:
                correct += (out.argmax(-1).numpy() == target)[target != IGNORE].tolist()
        return {"loss": total / len(examples), **({"accuracy": float(np.mean(correct))} if correct else {})}


def _tensor(array: Any) -> Tensor:
    return array if isinstance(array, Tensor) else Tensor(array)


def _arrays(arrays: Sequence[Any], name: str) -> tuple[np.ndarray, ...]:
    """Convert inputs and targets to NumPy arrays. Raise a UserError unless all have the same length."""
    found = tuple(np.asarray(array) for array in arrays)
    lengths = {len(array) if array.ndim else 0 for array in found}
    if len(found) < 2 or len(lengths) > 1 or lengths == {0}:
        shapes = ", ".join(str(array.shape) for array in found)
        raise UserError(
            f"{name} must be inputs and targets with one row per example, got shapes {shapes}.\n"
            f"Pass (x, y), where len(x) == len(y)."
        )
    return found


@dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens. It replaces a tokenizer if the pairs are already token ids."""

    pad_id: int = 0
    start_id: int = 2
    end_id: int = 3

    def encode(self, ids: Sequence[int]) -> list[int]:
        """Return `ids` as a list of ints. Raise a UserError if it is a text or not a list of ids."""
        if isinstance(ids, str):
            raise UserError(
                f"pairs of texts need a tokenizer, got {truncated_repr(ids)} without one.\n"
                f"Pass PairTask(pairs, tokenizer), such as Tokenizer.train_word(texts), or lists of ids."
            )
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise UserError(
                f"a side of a pair must be a list of ids, got {truncated_repr(ids)}.\n"
                f"Pass pairs like ([4, 5], [6])."
            )
        return array.astype(int).tolist()


class PairTask(Translation):
    """A task on (source, target) pairs for an encoder-decoder: texts with a tokenizer, or lists of token ids.

        PairTask(pairs, tokenizer)
        PairTask(pairs_of_ids, SpecialIds(pad_id=0, start_id=1, end_id=2))

    A batch has up to `max_tokens` tokens per side, including padding. `validation` is a list of pairs, with
    the same default as in `ArrayTask`.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Any, Any]],
        tokenizer: Any = None,
        max_tokens: int = 1024,
        validation: Sequence[tuple[Any, Any]] | None = None,
        seed: int = 0,
    ) -> None:
        if not len(pairs):
            raise UserError("there are no pairs to train on.\nPass a list of (source, target).")
        train = list(pairs)
        held_out = validation
        if validation is None:
            train, held = split_at(pairs, random_indices(len(pairs), min(HELD_OUT, len(pairs) // 10)))
            held_out = held or train
        data = BatchSize(max_tokens=max_tokens)
        super().__init__(data, train, held_out or [], tokenizer or SpecialIds(), seed=seed)

    def logits(self, model: Any, batch: Batch) -> Tensor:
        if not getattr(model, "is_encoder_decoder", False):
            raise UserError(
                f"PairTask needs an encoder-decoder, got a {type(model).__name__}.\n"
                f"Pass a Transformer, T5, BART or Seq2Seq, or your own model with is_encoder_decoder = True."
            )
        return super().logits(model, batch)
