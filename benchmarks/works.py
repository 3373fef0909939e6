"""The works that are measured: sizes, initial weights and batches, the same for every library.

Decoders are GPTs as minitransformer builds them: learned positions, pre-norm, GELU in its tanh form, one
matrix for embedding and output, no dropout. Recurrent ones are an embedding, nn.LSTM, nn.GRU or nn.RNN, and a
separate output layer. The encoder-decoder is the phrasebook recipe's, on its batches. Works on a GPU have a
precision: products in float32, in TF32, or in bfloat16 under autocast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import minigrad as mg
from minigrad import nn
from minitransformer import GPT, GPTConfig, Transformer, TransformerConfig
from minitransformer.errors import UserError

BATCHES = 8  # the steps of a measurement cycle through these


@dataclass(frozen=True)
class Decoder:
    """The size of a decoder-only model and of its batches."""

    layers: int
    heads: int
    width: int
    length: int
    batch: int
    vocabulary: int
    precision: str = "float32"

    def __str__(self) -> str:
        size = f"L{self.layers} H{self.heads} d{self.width} T{self.length} B{self.batch} V{self.vocabulary:,}"
        return size if self.precision == "float32" else f"{size} {self.precision}"

    @property
    def config(self) -> GPTConfig:
        return GPTConfig(
            vocab_size=self.vocabulary, n_positions=self.length, n_embd=self.width, n_layer=self.layers,
            n_head=self.heads, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip

    def model(self) -> GPT:
        mg.manual_seed(0)
        return GPT(self.config)

    def batches(self, number: int = BATCHES) -> list[tuple[np.ndarray, ...]]:
        """Inputs and targets, both (B, T)."""
        rng = np.random.default_rng(0)
        ids = rng.integers(0, self.vocabulary, (number, self.batch, self.length + 1))
        return [(np.ascontiguousarray(b[:, :-1]), np.ascontiguousarray(b[:, 1:])) for b in ids]


@dataclass(frozen=True)
class Phrasebook:
    """The phrasebook recipe: its model, with the paper's dropout and label smoothing, and the first of its
    batches."""

    def __str__(self) -> str:
        c = self.config
        source, target, _ = self.batches()[0]
        return (
            f"L{c.num_encoder_layers}+{c.num_decoder_layers} H{c.num_heads} d{c.d_model} "
            f"S{source.shape[1]} T{target.shape[1]} B{len(source)} V{c.vocab_size:,}, dropout {c.dropout}"
        )

    @property
    def config(self) -> TransformerConfig:
        return _phrasebook()[0]

    @property
    def label_smoothing(self) -> float:
        return _phrasebook()[1]

    def model(self) -> Transformer:
        mg.manual_seed(0)
        return Transformer(self.config)

    def batches(self, number: int = BATCHES) -> list[tuple[np.ndarray, ...]]:
        """Source, target in and target out (-100 for padding), each (B, T)."""
        return _phrasebook()[2][:number]


def recipe_parts(name: str) -> tuple[Any, Any, Any]:
    """A recipe that makes its own data, its task and its model."""
    from minitransformer import recipes
    from minitransformer.runs import run
    from minitransformer.tasks import task_class

    recipe: Any = recipes.load_recipe(name)
    splits = run.load_splits(recipe, None, None)
    kind: Any = task_class(recipe.task)
    tokenizer = kind.train_tokenizer(recipe.data, recipe.vocab_size, splits)
    task = kind.build(recipe, tokenizer, kind.filter(recipe.data, tokenizer, splits))
    return recipe, task, run.build_model(recipe, tokenizer)


@cache
def _phrasebook() -> tuple[TransformerConfig, float, list[tuple[np.ndarray, ...]]]:
    """The recipe's model, its label smoothing and its first batches."""
    recipe, task, model = recipe_parts("phrasebook")
    drawn = [task.batch(step) for step in range(BATCHES)]
    config = model.config
    assert isinstance(config, TransformerConfig)
    smoothing = recipe.training.label_smoothing
    config = replace(config, dropout=0.1)  # the recipe has none; the figures in docs/results.md are with it
    return config, smoothing, [(b["source"], b["target_in"], b["target"]) for b in drawn]


@dataclass(frozen=True)
class Recurrent:
    """A recurrent language model: an embedding, layers of `kind`, "LSTM", "GRU" or "RNN", and an output
    layer."""

    kind: str
    layers: int
    width: int
    length: int
    batch: int
    vocabulary: int

    def __str__(self) -> str:
        return f"{self.kind} L{self.layers} d{self.width} T{self.length} B{self.batch} V{self.vocabulary:,}"

    def model(self) -> nn.Module:
        mg.manual_seed(0)
        return self.model_of(nn)

    def model_of(self, nn: Any) -> Any:
        """The model, built from a library's modules."""
        model = nn.Module()
        model.embedding = nn.Embedding(self.vocabulary, self.width)
        model.recurrent = getattr(nn, self.kind)(self.width, self.width, self.layers, batch_first=True)
        model.output = nn.Linear(self.width, self.vocabulary)
        return model

    def batches(self, number: int = BATCHES) -> list[tuple[np.ndarray, ...]]:
        """Inputs and targets, both (B, T)."""
        return Decoder(self.layers, 1, self.width, self.length, self.batch, self.vocabulary).batches(number)


@dataclass(frozen=True)
class MLP:
    """A classifier with two hidden layers (ReLU), trained by plain SGD, which the smallest libraries can
    do."""

    inputs: int = 64
    width: int = 128
    classes: int = 10
    batch: int = 64

    def __str__(self) -> str:
        return f"{self.inputs}-{self.width}-{self.width}-{self.classes} B{self.batch}, SGD"

    def model(self) -> nn.Module:
        mg.manual_seed(0)
        sizes = [self.inputs, self.width, self.width, self.classes]
        first, second, third = (nn.Linear(a, b) for a, b in pairwise(sizes))
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)

    def batches(self, number: int = BATCHES) -> list[tuple[np.ndarray, ...]]:
        """Inputs (B, inputs) and classes (B,)."""
        rng = np.random.default_rng(0)
        return [
            (
                rng.normal(size=(self.batch, self.inputs)).astype(np.float32),
                rng.integers(0, self.classes, self.batch),
            )
            for _ in range(number)
        ]


Work = Decoder | Phrasebook | Recurrent | MLP


class UnknownWorkError(UserError):
    """Raised for a name that is not a work."""


def work_of(name: str) -> Work:
    """A work by its name, or as printed: "nano", "L2 H4 d64 T32 B32 V65"."""
    known = WORKS | GPU_WORKS
    if name in known:
        return known[name]
    for cls, pattern in ((Decoder, r"L(\d+) H(\d+) d(\d+) T(\d+) B(\d+) V([\d,]+)(?: (tf32|bfloat16))?"),
                         (Recurrent, r"(LSTM|GRU|RNN) L(\d+) d(\d+) T(\d+) B(\d+) V([\d,]+)")):  # fmt: skip
        found = re.fullmatch(pattern, name)
        if found:
            parts = [part for part in found.groups() if part]
            sizes = [int(part.replace(",", "")) if part[0].isdigit() else part for part in parts]
            if 0 in sizes:
                raise UnknownWorkError(f"a size of {name!r} is 0.\nChoose sizes from 1 on.")
            return cls(*sizes)
    raise UnknownWorkError(
        f"unknown work {name!r}.\nName one of {', '.join(known)}, or a size as L2 H4 d64 T32 B8 V65."
    )


WORKS: dict[str, Work] = {
    "mlp": MLP(),
    "micro": Decoder(layers=1, heads=2, width=16, length=8, batch=8, vocabulary=32),
    "tiny": Decoder(layers=2, heads=4, width=64, length=32, batch=32, vocabulary=65),
    "nano": Decoder(layers=4, heads=4, width=128, length=64, batch=12, vocabulary=65),
    "phrasebook": Phrasebook(),
    "lstm": Recurrent("LSTM", layers=2, width=128, length=64, batch=32, vocabulary=65),
    "base": Decoder(layers=6, heads=8, width=512, length=128, batch=8, vocabulary=8000),
}
SHAKESPEARE = Decoder(layers=6, heads=6, width=384, length=256, batch=64, vocabulary=65)
GPT2 = Decoder(layers=12, heads=12, width=768, length=1024, batch=16, vocabulary=50304)
GPU_WORKS: dict[str, Work] = {
    "micro": WORKS["micro"],
    "nano": WORKS["nano"],
    "shakespeare-char": replace(SHAKESPEARE, precision="bfloat16"),
    "gpt2": replace(GPT2, precision="bfloat16"),
    "shakespeare-char-tf32": replace(SHAKESPEARE, precision="tf32"),
}


def row_name(key: str) -> str:
    """The name of a work, and its size."""
    size = str(work_of(key))
    return key if key == size else f"{key}: {size}"


# of AdamW
LR = 1e-3
BETAS = (0.9, 0.999)
EPS = 1e-8
DECAY = 0.01


class First(NamedTuple):
    """The results of a first step, which show that libraries do the same work."""

    loss: float
    gradients: dict[str, np.ndarray]  # by our parameters' names


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Copies of a model's weights, by name."""
    return {name: p.numpy().copy() for name, p in model.named_parameters()}
