"""Models, one in each file, composed of the same layers. `protocol` describes what they have in common."""

from .bart import BART, BARTConfig
from .bert import BERT, BERTConfig
from .gpt import GPT, GPTConfig
from .llama import Llama, LlamaConfig
from .protocol import MODELS, DecoderOnly, EncoderDecoder, model_class, register_model
from .recurrent import RecurrentConfig, RecurrentLM
from .seq2seq import Seq2Seq, Seq2SeqConfig
from .t5 import T5, T5Config
from .transformer import Transformer, TransformerConfig
from .vit import ViT, ViTConfig

__all__ = [
    "BART",
    "BERT",
    "GPT",
    "MODELS",
    "T5",
    "BARTConfig",
    "BERTConfig",
    "DecoderOnly",
    "EncoderDecoder",
    "GPTConfig",
    "Llama",
    "LlamaConfig",
    "RecurrentConfig",
    "RecurrentLM",
    "Seq2Seq",
    "Seq2SeqConfig",
    "T5Config",
    "Transformer",
    "TransformerConfig",
    "ViT",
    "ViTConfig",
    "model_class",
    "register_model",
]
