"""What a model is made of: dataclasses with the field's keys."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import UserError, check_range


def _check_heads(config: object, width: str, heads: str) -> None:
    d, h = getattr(config, width), getattr(config, heads)
    if d % h:
        raise UserError(
            f"{width}={d} does not split into {heads}={h} heads of whole size.\n"
            f"Choose a multiple of {h}, or other heads."
        )


@dataclass(frozen=True)
class TransformerConfig:
    """The encoder-decoder of "Attention Is All You Need"; the defaults are its base model (table 3).

    One vocabulary serves source and target, and one matrix both embeddings and the output (section 3.4).
    `attention_dropout` and `activation_dropout` act on the attention weights and inside the feed-forward network; the
    paper has neither. `norm_first` is pre-norm: x + f(norm(x)) instead of norm(x + f(x)), with a norm after each stack.
    """

    vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"
    norm_first: bool = False
    positions: str = "sinusoidal"  # or "learned"
    max_positions: int = 512  # of learned positions; the sinusoids have no limit
    scale_embeddings: bool = True
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 0
    bos_token_id: int = 2
    eos_token_id: int = 3

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_eps", 0)
        check_range(self, "d_model num_heads d_ff num_encoder_layers num_decoder_layers max_positions", 1)
        check_range(self, "dropout attention_dropout activation_dropout", 0, 1)
        _check_heads(self, "d_model", "num_heads")


@dataclass(frozen=True)
class GPTConfig:
    """A decoder-only model; the defaults are GPT-2's smallest (Radford et al. 2019), the keys Hugging Face's."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # None: 4 n_embd
    embd_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_epsilon initializer_range", 0)
        check_range(self, "n_positions n_embd n_layer n_head", 1)
        check_range(self, "embd_pdrop resid_pdrop attn_pdrop", 0, 1)
        if self.n_inner is not None:
            check_range(self, "n_inner", 1)
        _check_heads(self, "n_embd", "n_head")
