"""Transformer models on minigrad, a trainer for them, and ways to look inside them."""

# Names are imported when they are first used: imports take a second, and the command line must handle Ctrl-C
# during that time.

from importlib import import_module

TYPE_CHECKING = False  # of `typing`, which takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

    from minigrad import __version__

    from .generation.generate import generate, stream
    from .layers.attention import MultiHeadAttention
    from .layers.masks import causal_mask, padding_mask
    from .models import (
        BART,
        BERT,
        GPT,
        T5,
        BARTConfig,
        BERTConfig,
        GPTConfig,
        Llama,
        LlamaConfig,
        RecurrentConfig,
        RecurrentLM,
        Seq2Seq,
        Seq2SeqConfig,
        T5Config,
        Transformer,
        TransformerConfig,
        ViT,
        ViTConfig,
    )
    from .models.protocol import register_model
    from .tasks import ArrayTask, PairTask, Task, register_task
    from .text.tokenizer import Tokenizer
    from .training.config import TrainConfig
    from .training.trainer import Trainer

__all__ = [
    "BART",
    "BERT",
    "GPT",
    "T5",
    "ArrayTask",
    "BARTConfig",
    "BERTConfig",
    "GPTConfig",
    "Llama",
    "LlamaConfig",
    "MultiHeadAttention",
    "PairTask",
    "RecurrentConfig",
    "RecurrentLM",
    "Seq2Seq",
    "Seq2SeqConfig",
    "T5Config",
    "Task",
    "Tokenizer",
    "TrainConfig",
    "Trainer",
    "Transformer",
    "TransformerConfig",
    "ViT",
    "ViTConfig",
    "__version__",
    "causal_mask",
    "generate",
    "padding_mask",
    "register_model",
    "register_task",
    "stream",
]

_MODULES = {
    "minigrad": ["__version__"],
    ".training.config": ["TrainConfig"],
    ".generation": ["generate", "stream"],
    ".layers": ["MultiHeadAttention", "causal_mask", "padding_mask"],
    ".models": [
        "BART",
        "BARTConfig",
        "BERT",
        "BERTConfig",
        "GPT",
        "GPTConfig",
        "Llama",
        "LlamaConfig",
        "RecurrentConfig",
        "RecurrentLM",
        "Seq2Seq",
        "Seq2SeqConfig",
        "T5",
        "T5Config",
        "Transformer",
        "TransformerConfig",
        "ViT",
        "ViTConfig",
    ],
    ".models.protocol": ["register_model"],
    ".tasks": ["ArrayTask", "PairTask", "Task", "register_task"],
    ".text.tokenizer": ["Tokenizer"],
    ".training.trainer": ["Trainer"],
}


# inspection: looks inside a model
if TYPE_CHECKING:
    from .inspection.heads import HeadScores, score_heads
    from .inspection.probes import ProbeScores, probe_layers
    from .inspection.recording import (
        ablate_heads,
        attention_distance,
        attention_entropy,
        logit_lens,
        record_activations,
        record_attention,
    )
    from .inspection.states import attention_distances, layer_states
    from .inspection.word_files import WordVectors, fill_embedding, load_word_vectors, save_word_vectors
    from .inspection.words import analogy, nearest_words, project_vectors, word_similarities, word_vectors

_MODULES[".inspection.recording"] = [
    "ablate_heads",
    "attention_distance",
    "attention_entropy",
    "logit_lens",
    "record_activations",
    "record_attention",
]
_MODULES[".inspection.heads"] = ["HeadScores", "score_heads"]
_MODULES[".inspection.probes"] = ["ProbeScores", "probe_layers"]
_MODULES[".inspection.states"] = ["attention_distances", "layer_states"]
_MODULES[".inspection.words"] = [
    "analogy",
    "nearest_words",
    "project_vectors",
    "word_similarities",
    "word_vectors",
]
_MODULES[".inspection.word_files"] = [
    "WordVectors",
    "fill_embedding",
    "load_word_vectors",
    "save_word_vectors",
]
__all__ += [
    "HeadScores",
    "ProbeScores",
    "WordVectors",
    "ablate_heads",
    "analogy",
    "attention_distance",
    "attention_distances",
    "attention_entropy",
    "fill_embedding",
    "layer_states",
    "load_word_vectors",
    "logit_lens",
    "nearest_words",
    "probe_layers",
    "project_vectors",
    "record_activations",
    "record_attention",
    "save_word_vectors",
    "score_heads",
    "word_similarities",
    "word_vectors",
]

# pretrained: models and tokenizers from the Hugging Face hub, and back
if TYPE_CHECKING:
    from .pretrained import load_pretrained, save_pretrained

_MODULES[".pretrained"] = ["load_pretrained", "save_pretrained"]
__all__ += ["load_pretrained", "save_pretrained"]


def __getattr__(name: str) -> "Any":
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = getattr(import_module(module, __name__), name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
