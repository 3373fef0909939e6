"""A language model of recurrent layers: simple RNN (Elman 1990), LSTM (Hochreiter & Schmidhuber 1997) or GRU
(Cho et al. 2014).

h_t = f(h_{t-1}, x_t): the state after a token is all that the network remembers of the tokens so far. Its
cache does not grow with the text, and it reads tokens one after the other.
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
    """A recurrent language model. Keys: those of PyTorch's nn.LSTM and nn.Embedding, and Hugging Face's."""

    vocab_size: int = 0  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    embedding_dim: int = 256  # size of each token's vector
    hidden_size: int = 256
    num_layers: int = 2
    rnn_type: str = "lstm"  # "lstm", "rnn" or "gru"
    dropout: float = 0.1  # of embeddings, between layers, and of the last layer's states
    tie_word_embeddings: bool = True  # the output layer is the embedding (Press & Wolf 2017)
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
    """Embedding, recurrent layers, and an output layer: logits t predict the token after position t.

    Padding, where `mask` (B, past + T) is False, does not change the states.
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
        """No limit: the network has no positions."""
        return None

    def new_cache(self, max_length: int = 0) -> RecurrentCache:
        """An empty cache for decoding; it holds one state per layer, regardless of the length of the text."""
        return RecurrentCache()

    def states(
        self, ids: Any, cache: RecurrentCache | None = None, mask: Any = None
    ) -> Float[Tensor, "B T D"]:
        """The last layer's state after each token of ids (B, T), which follow the tokens of the `cache`."""
        x = self.dropout(self.embedding(ids))
        cache = RecurrentCache() if cache is None else cache
        with cache:
            h, after = scan(self.rnn, x, cache.read(len(x)), real_columns(mask, x, cache.length))
            cache.update(after, x.shape[1])
        return self.dropout(h)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Hidden states to logits of the next token."""
        return self.embedding.logits(states) if self.output is None else self.output(states)

    def forward(self, ids: Any, mask: Any = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.states(ids, None, mask))


class RecurrentCache:
    """The states after `length` tokens; and the `keys` of attention, computed once for each source."""

    def __init__(self) -> None:
        self.length = 0
        self.states: States = ()
        self.keys: Tensor | None = None
        self._saved: list[tuple[int, States, Tensor | None]] = []  # one for each open `with`

    def read(self, batch: int) -> States:
        """The states, after a check that they fit a batch of this size."""
        if self.states and self.states[0].shape[1] != batch:
            raise UserError(
                f"expected a batch of {self.states[0].shape[1]}, as in the cache, got {batch}.\n"
                f"Continue with the same batch, or make a new cache."
            )
        return self.states

    def update(self, states: States, tokens: int) -> None:
        """Replace the states with those after `tokens` more tokens."""
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
    """The outputs of a recurrent module, and its states after the last `real` token; None: all are real.

    The real tokens of a row are moved to its left, since packed sequences have padding on the right.
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
    y = where(Tensor(real[rows, order][..., None]).to(x.device), y, 0.0)  # padding gives zeros
    any_real = Tensor((lengths > 0)[:, None]).to(x.device)  # a row without a real token keeps its states
    before = states or [new * 0 for new in _states(after)]
    kept = tuple(where(any_real, new, old) for new, old in zip(_states(after), before, strict=True))
    return y[rows, np.argsort(order, axis=1)], kept


def _states(after: Any) -> States:
    return after if type(after) is tuple else (after,)


def real_columns(mask: Any, x: Float[Tensor, "B T D"], past: int = 0) -> Bool[np.ndarray, "B T"] | None:
    """Which of the last T tokens are real, in NumPy; the mask is (B, past + T), or one of scores."""
    if mask is not None and (mask := as_tensor_like(mask, x)).ndim == 4:
        mask = mask[:, 0, 0]
    mask = key_mask(mask, x, past, allow_empty=True)
    return None if mask is None else on_cpu(mask.array)[:, 0, 0, past:]
