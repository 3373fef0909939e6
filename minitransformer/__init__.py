"""minitransformer: Transformer models on minigrad, and a trainer for them."""

from .attention import MultiHeadAttention
from .config import GPTConfig, TrainConfig, TransformerConfig
from .generation import generate
from .masks import causal_mask, padding_mask
from .models import GPT, Transformer
from .tokenizers import Tokenizer
from .training.trainer import Trainer

__all__ = [
    "GPT",
    "GPTConfig",
    "MultiHeadAttention",
    "Tokenizer",
    "TrainConfig",
    "Trainer",
    "Transformer",
    "TransformerConfig",
    "causal_mask",
    "generate",
    "padding_mask",
]
