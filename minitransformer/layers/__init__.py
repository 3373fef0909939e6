"""Layers: multi-head attention, embeddings, positions, masks, and the encoder and decoder made of them."""

from .attention import MultiHeadAttention
from .cache import Cache, KeyValueCache, LayerCache
from .config import ACTIVATIONS, GATED, NORMS, LayerConfig
from .embeddings import TokenEmbedding
from .encoder_decoder import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, Residual
from .masks import causal_mask, padding_mask

__all__ = [
    "ACTIVATIONS",
    "GATED",
    "NORMS",
    "Cache",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeyValueCache",
    "LayerCache",
    "LayerConfig",
    "MultiHeadAttention",
    "Residual",
    "TokenEmbedding",
    "causal_mask",
    "padding_mask",
]
