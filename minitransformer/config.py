"""Model and training configurations, with the keys that PyTorch and Hugging Face use."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad import optim

from .errors import UserError, check_range

SCHEDULES = ("inverse_sqrt", "cosine", "constant")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")

MAX_LAYERS = 1000  # even tiny ones take seconds for each step


def _check_heads(config: object, width: str, heads: str) -> None:
    d, h = getattr(config, width), getattr(config, heads)
    if d % h:
        raise UserError(
            f"{width}={d} is not divisible by {heads}={h}.\n"
            f"Choose a multiple of {h}, or another number of heads."
        )


@dataclass(frozen=True)
class TransformerConfig:
    """The encoder-decoder of "Attention Is All You Need"; the defaults are its base model (table 3).

    Source and target share a vocabulary; both embeddings and the output layer share a matrix (section 3.4).
    The paper has neither `attention_dropout` nor `activation_dropout`.
    """

    vocab_size: int  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    d_model: int = 512  # size of each token's vector
    num_heads: int = 8
    d_ff: int = 2048  # inner width of the feed-forward networks
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1  # of embeddings and of sub-layer outputs
    attention_dropout: float = 0.0  # of attention weights
    activation_dropout: float = 0.0  # inside the feed-forward networks
    activation: str = "relu"  # or "gelu", "gelu_new"
    norm_first: bool = False  # pre-norm: x + f(norm(x)), not norm(x + f(x)), and a norm after each stack
    positions: str = "sinusoidal"  # or "learned"
    max_positions: int = 512  # of learned positions; the sinusoids have no limit
    scale_embeddings: bool = True  # by sqrt(d_model) (section 3.4)
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 0  # the tokenizer's, in a recipe
    bos_token_id: int = 2  # likewise
    eos_token_id: int = 3  # likewise

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_eps", 0)
        check_range(self, "d_model num_heads d_ff max_positions", 1)
        check_range(self, "num_encoder_layers num_decoder_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout attention_dropout activation_dropout", 0, 1)
        check_range(self, "pad_token_id bos_token_id eos_token_id", -(2**63))
        _check_heads(self, "d_model", "num_heads")


@dataclass(frozen=True)
class GPTConfig:
    """A decoder-only model. Defaults: the smallest GPT-2 (Radford et al. 2019); keys: Hugging Face's."""

    vocab_size: int = 50257  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    n_positions: int = 1024  # maximum sequence length
    n_embd: int = 768  # size of each token's vector
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # inner width of the feed-forward networks; None: 4 n_embd
    embd_pdrop: float = 0.1  # dropout of embeddings
    resid_pdrop: float = 0.1  # dropout of sub-layer outputs
    attn_pdrop: float = 0.1  # dropout of attention weights
    activation_function: str = "gelu_new"  # or "relu", "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02  # standard deviation of the initial weights

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_epsilon initializer_range", 0)
        check_range(self, "n_positions n_embd n_head", 1)
        check_range(self, "n_layer", 1, MAX_LAYERS + 1)
        check_range(self, "embd_pdrop resid_pdrop attn_pdrop", 0, 1)
        if self.n_inner is not None:
            check_range(self, "n_inner", 1)
        _check_heads(self, "n_embd", "n_head")


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. Batch sizes belong to the task."""

    steps: int = 1000  # number of batches
    lr: float = 1e-3  # peak of the schedule
    schedule: str = "inverse_sqrt"  # the paper's (section 5.3), or "cosine", "constant"
    warmup_steps: int = 100
    min_lr: float = 0.0  # end of "cosine"
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

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise UserError(f"unknown schedule {self.schedule!r}.\nChoose one of {', '.join(SCHEDULES)}.")
        if self.precision not in PRECISIONS:
            raise UserError(f"unknown precision {self.precision!r}.\nChoose one of {', '.join(PRECISIONS)}.")
        check_range(self, "steps micro_batches log_every validate_every checkpoint_every", 1)
        check_range(self, "seed lr warmup_steps min_lr adam_eps weight_decay clip_norm", 0)
        check_range(self, "label_smoothing", 0, 1)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"betas = {self.betas} is out of range.\nChoose two values >= 0 and < 1.")

    def learning_rate(self, step: int) -> float:
        """The learning rate of `step`, counted from 1."""
        if self.schedule == "inverse_sqrt":
            return optim.inverse_sqrt_schedule(step, self.lr, self.warmup_steps)
        if self.schedule == "cosine":
            return optim.cosine_schedule(step - 1, self.lr, self.steps, self.warmup_steps, self.min_lr)
        return self.lr * min(1.0, step / max(self.warmup_steps, 1))
