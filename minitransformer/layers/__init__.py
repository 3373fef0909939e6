"""Layers: multi-head attention, embeddings, positions, masks, and the encoder and decoder made of them."""

from .attention import MultiHeadAttention, attention_scores, merge_heads, split_heads
from .cache import Cache, KeyValueCache, LayerCache
from .config import ACTIVATIONS, GATED, NORMS, LayerConfig
from .embeddings import TokenEmbedding
from .encoder_decoder import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, Residual
from .masks import causal_mask, from_blocked, padding_mask

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
    "attention_scores",
    "causal_mask",
    "from_blocked",
    "merge_heads",
    "padding_mask",
    "split_heads",
]
