"""A language model of recurrent layers: simple RNN (Elman 1990), LSTM (Hochreiter & Schmidhuber 1997) or GRU
(Cho et al. 2014).

h_t = f(h_{t-1}, x_t): the state after a token is all that the network remembers of the tokens so far. The
cache, which holds the state, does not grow with the text, but tokens are processed one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from minigrad import Tensor, nn
from minigrad.core.devices import on_cpu
from minigrad.core.tensor import as_tensor_like
from minigrad.nn.recurrent import GRU, LSTM, RNN
from minigrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from minigrad.ops.selection import where

from ..base_config import Config, check_config
from ..errors import UserError, check_choice, check_range
from ..layers.config import MAX_LAYERS
from ..layers.embeddings import TokenEmbedding
from ..layers.masks import key_mask

RNN_TYPES: dict[str, Any] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}

States = tuple[Tensor, ...]  # h, and for an LSTM also c: (layers, B, hidden) each; () means zeros


@dataclass(frozen=True)
class RecurrentConfig(Config):
    """The settings of a recurrent language model. The names are PyTorch's (nn.LSTM, nn.Embedding) and Hugging
    Face's."""

    vocab_size: int = 0  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    embedding_dim: int = 256  # size of each token's vector
    hidden_size: int = 256  # size of each layer's state
    num_layers: int = 2
    rnn_type: str = "lstm"  # "lstm", "rnn" or "gru"
    dropout: float = 0.1  # of embeddings, between layers, and of the last layer's states
    tie_word_embeddings: bool = True  # whether the output layer shares the embedding's matrix
    pad_token_id: int | None = None
    eos_token_id: int | None = None

    def __post_init__(self) -> None:
        check_range(self, "vocab_size", 0)
        check_range(self, "embedding_dim hidden_size", 1)
        check_range(self, "num_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout", 0, 1)
        check_choice("rnn_type", self.rnn_type, RNN_TYPES)
        if self.tie_word_embeddings and self.embedding_dim != self.hidden_size:
            raise UserError(
                f"tie_word_embeddings needs equal sizes, got embedding_dim={self.embedding_dim} and "
                f"hidden_size={self.hidden_size}.\n"
                f"Make them equal, or set tie_word_embeddings=False."
            )


class RecurrentLM(nn.Module):
    """A token embedding, recurrent layers, and an output layer.

    Logits t predict the token after position t. Padding, where `mask` (B, past + T) is False, does not change
    the states.
    """

    is_encoder_decoder: ClassVar[bool] = False
    model_type: ClassVar[str] = "recurrent"
    config_class: ClassVar[type] = RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = check_config(config, self.config_class)
        self.embedding = TokenEmbedding(config.vocab_size, config.embedding_dim)
        rnn = RNN_TYPES[config.rnn_type]
        layers = config.num_layers
        between = config.dropout if layers > 1 else 0.0
        self.rnn = rnn(config.embedding_dim, config.hidden_size, layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(config.dropout)
        self.output = None if config.tie_word_embeddings else nn.Linear(config.hidden_size, config.vocab_size)

    @property
    def max_length(self) -> int | None:
        """None: the length is not limited, as the network has no positions."""
        return None

    def new_cache(self, max_length: int = 0) -> RecurrentCache:
        """An empty cache for decoding. It holds one state per layer, whatever the length of the text."""
        return RecurrentCache()

    def states(
        self, ids: Any, cache: RecurrentCache | None = None, mask: Any = None
    ) -> Float[Tensor, "B T D"]:
        """The last layer's state after each token of ids (B, T), which follow the tokens in the `cache`."""
        x = self.dropout(self.embedding(ids))
        cache = RecurrentCache() if cache is None else cache
        with cache:
            h, after = scan(self.rnn, x, cache.read(len(x)), real_columns(mask, x, cache.length))
            cache.update(after, x.shape[1])
        return self.dropout(h)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        return self.embedding.logits(states) if self.output is None else self.output(states)

    def forward(self, ids: Any, mask: Any = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.states(ids, None, mask))


class RecurrentCache:
    """The states of recurrent layers after `length` tokens, and the `keys` of attention to a source.

    A model runs its layers under `with cache:`, so that a call that raises an error leaves it unchanged.
    """

    def __init__(self) -> None:
        self.length = 0
        self.states: States = ()
        self.keys: Tensor | None = None
        self._saved: list[tuple[int, States, Tensor | None]] = []  # one for each open `with`

    def read(self, batch: int) -> States:
        """Return the states. Raise a UserError if their batch size is not `batch`."""
        if self.states and self.states[0].shape[1] != batch:
            raise UserError(
                f"expected a batch of {self.states[0].shape[1]}, as in the cache, got {batch}.\n"
                f"Continue with the same batch, or make a new cache."
            )
        return self.states

    def update(self, states: States, tokens: int) -> None:
        """Replace the states with the states after `tokens` more tokens."""
        self.states = states
        self.length += tokens

    def batch_select_indices(self, indices: Any) -> None:
        """Select rows of the batch, by indices or a boolean mask."""
        self.states = tuple(Tensor(s.array[:, indices]) for s in self.states)
        self.keys = None if self.keys is None else Tensor(self.keys.array[indices])

    def __enter__(self) -> None:
        self._saved.append((self.length, self.states, self.keys))

    def __exit__(self, failure: type[BaseException] | None, *exc: object) -> None:
        saved = self._saved.pop()
        if failure is not None:
            self.length, self.states, self.keys = saved


def scan(
    rnn: nn.Module, x: Float[Tensor, "B T D"], states: States, real: Bool[np.ndarray, "B T"] | None = None
) -> tuple[Float[Tensor, "B T H"], States]:
    """The outputs of a recurrent module, and its states after the last token that is not padding.

    `real` is False for padding, whose outputs are zero; None means that all tokens are real. The real tokens
    of a row are moved to the left before the call, since packed sequences have padding on the right.
    """
    hx: Any = states if len(states) == 2 else states[0] if states else None
    if real is None or real.all():
        y, after = rnn(x, hx)
        return y, _states(after)
    rows = np.arange(len(real))[:, None]
    lengths = real.sum(1)
    order = np.argsort(~real, axis=1, kind="stable")
    packed = pack_padded_sequence(x[rows, order], lengths.clip(1), batch_first=True, enforce_sorted=False)
    y, after = rnn(packed, hx)
    y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    y = where(Tensor(real[rows, order][..., None]).to(x.device), y, 0.0)  # the outputs of padding are zero
    any_real = Tensor((lengths > 0)[:, None]).to(x.device)  # a row without a real token keeps its states
    before = states or [new * 0 for new in _states(after)]
    kept = tuple(where(any_real, new, old) for new, old in zip(_states(after), before, strict=True))
    return y[rows, np.argsort(order, axis=1)], kept


def _states(after: Any) -> States:
    return after if type(after) is tuple else (after,)


def real_columns(mask: Any, x: Float[Tensor, "B T D"], past: int = 0) -> Bool[np.ndarray, "B T"] | None:
    """Which of the last T tokens are real, as a NumPy array; None if the mask is None.

    `mask` is a padding mask (B, past + T), or (B, 1, 1, past + T), as `key_mask` returns it.
    """
    if mask is not None and (mask := as_tensor_like(mask, x)).ndim == 4:
        mask = mask[:, 0, 0]
    mask = key_mask(mask, x, past, allow_empty=True)
    return None if mask is None else on_cpu(mask.array)[:, 0, 0, past:]
