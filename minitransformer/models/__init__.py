"""Models: each one file, composed from the same layers; `protocol` says what they have in common."""

from .gpt import GPT, GPTConfig
from .protocol import MODELS, DecoderOnly, EncoderDecoder, model_class, register_model
from .transformer import Transformer, TransformerConfig

__all__ = [
    "GPT",
    "MODELS",
    "DecoderOnly",
    "EncoderDecoder",
    "GPTConfig",
    "Transformer",
    "TransformerConfig",
    "model_class",
    "register_model",
]
