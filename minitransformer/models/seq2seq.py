"""Sequence to sequence with recurrent networks: the encoder-decoders before the Transformer.

An encoder reads the source into states h_1 ... h_S. A decoder writes the target, with states
s_i = f(s_{i-1}, y_{i-1}, c_i). The context c_i is all that the decoder sees of the source. The setting
`attention` selects how it is computed:

- "none": c_i = c, the last state of the encoder: one vector for a sentence of any length (Sutskever et al.
  2014; Cho et al. 2014).
- "additive": c_i = sum_j a_ij h_j, with a_ij = softmax_j(v·tanh(W s_{i-1} + U h_j)) (Bahdanau et al. 2015).
- "dot": c_i = sum_j a_ij h_j, with a_ij = softmax_j(s_i·h_j), where c_i enters after the recurrence, which is
  s_i = f(s_{i-1}, y_{i-1}) (Luong et al. 2015, global attention without input feeding).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from minigrad import Tensor, nn
from minigrad.ops.shaping import cat

from ..base_config import Config, check_config
from ..errors import UserError, check_choice, check_range
from ..layers.config import MAX_LAYERS
from ..layers.embeddings import TokenEmbedding
from ..layers.masks import check_same_batch, key_mask
from .encoder_decoder import EncoderDecoderModel
from .recurrent import RNN_TYPES, RecurrentCache, States, real_columns, scan


@dataclass(frozen=True)
class Seq2SeqConfig(Config):
    """The settings of a recurrent encoder-decoder. The names are PyTorch's (nn.GRU, nn.Embedding) and Hugging
    Face's."""

    vocab_size: int = 0  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    embedding_dim: int = 128  # size of each token's vector
    hidden_size: int = 256  # size of the decoder's states, and of the encoder's in each direction
    num_layers: int = 1  # number of layers of the encoder, and of the decoder
    rnn_type: str = "gru"  # "gru", "rnn" or "lstm"
    attention: str = "additive"  # "additive", "none" (a fixed context vector) or "dot"
    bidirectional: bool = True  # whether the encoder also reads from right to left
    dropout: float = 0.1  # of embeddings, between layers, and before the output layer
    tie_word_embeddings: bool = True  # whether the output layer shares the embedding's matrix
    pad_token_id: int = 0  # in a recipe, the tokenizer's
    bos_token_id: int = 2  # in a recipe, the tokenizer's
    eos_token_id: int = 3  # in a recipe, the tokenizer's

    def __post_init__(self) -> None:
        check_range(self, "vocab_size", 0)
        check_range(self, "embedding_dim hidden_size", 1)
        check_range(self, "num_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout", 0, 1)
        check_range(self, "pad_token_id bos_token_id eos_token_id", -(2**63))
        check_choice("rnn_type", self.rnn_type, RNN_TYPES)
        check_choice("attention", self.attention, ATTENTIONS)
        if self.attention == "dot" and self.bidirectional:
            raise UserError(
                f"dot attention needs states of equal size, but the decoder's is {self.hidden_size}, that of "
                f"the bidirectional encoder {self.memory_size}.\n"
                f'Set bidirectional=False, or attention="additive".'
            )

    @property
    def memory_size(self) -> int:
        """The size of an encoder state, with both directions concatenated."""
        return self.hidden_size * (2 if self.bidirectional else 1)


# ---------------------------------------------------------------- the context


class Source(NamedTuple):
    """What the decoder reads of the source: the memory, its keys, and a mask of its real positions."""

    memory: Float[Tensor, "B S M"]
    keys: Any  # (B, S, A); None without attention
    mask: Bool[Tensor, "B 1 S"] | None


class FixedContext(nn.Module):
    """c_i = c: the decoder sees the same vector at each step (Cho et al. 2014, equation 6)."""

    attends = False
    enters_recurrence = True

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()

    def forward(
        self, decoder: nn.Module, x: Float[Tensor, "B T E"], source: Source, states: States, written: Any
    ) -> tuple[Tensor, Tensor, Tensor | None, States]:
        context = source.memory.expand(-1, x.shape[1], -1)
        h, states = scan(decoder, cat([x, context], -1), states, written)
        return h, context, None, states


class AdditiveAttention(nn.Module):
    """a_ij = softmax_j(v·tanh(W s_{i-1} + U h_j)) (Bahdanau et al. 2015, section A.1.2).

    The context of a step depends on the state before it, so steps cannot be computed in parallel.
    """

    attends = True
    enters_recurrence = True

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=False)  # W
        self.key = nn.Linear(config.memory_size, config.hidden_size, bias=False)  # U
        self.score = nn.Linear(config.hidden_size, 1, bias=False)  # v

    def keys(self, memory: Float[Tensor, "B S M"]) -> Float[Tensor, "B S A"]:
        """U h_j, which is the same for all steps."""
        return self.key(memory)

    def weights(self, query: Float[Tensor, "B T H"], source: Source) -> Float[Tensor, "B T S"]:
        pairs = self.query(query).unsqueeze(2) + source.keys.unsqueeze(1)  # (B, T, S, A)
        return masked_softmax(self.score(pairs.tanh()).squeeze(-1), source.mask)

    def forward(
        self, decoder: nn.Module, x: Float[Tensor, "B T E"], source: Source, states: States, written: Any
    ) -> tuple[Tensor, Tensor, Tensor | None, States]:
        steps = []
        for t, word in enumerate(x.split(1, 1)):  # (B, 1, E)
            last_layer = states[0][-1].unsqueeze(1)  # s_{i-1}: (B, 1, H)
            weights = self.weights(last_layer, source)  # (B, 1, S)
            context = weights @ source.memory  # c_i: (B, 1, M)
            real = None if written is None else written[:, t : t + 1]
            h, states = scan(decoder, cat([word, context], -1), states, real)
            steps.append((h, context, weights))
        h, context, weights = (cat(parts, 1) for parts in zip(*steps, strict=True))
        return h, context, weights, states


class DotAttention(nn.Module):
    """a_ij = softmax_j(s_i·h_j) (Luong et al. 2015, equations 7 and 8), for all steps at once."""

    attends = True
    enters_recurrence = False

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()

    def keys(self, memory: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        return memory

    def weights(self, query: Float[Tensor, "B T H"], source: Source) -> Float[Tensor, "B T S"]:
        return masked_softmax(query @ source.memory.mT, source.mask)

    def forward(
        self, decoder: nn.Module, x: Float[Tensor, "B T E"], source: Source, states: States, written: Any
    ) -> tuple[Tensor, Tensor, Tensor | None, States]:
        h, states = scan(decoder, x, states, written)
        weights = self.weights(h, source)
        return h, weights @ source.memory, weights, states


def masked_softmax(
    scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B 1 S"] | None
) -> Float[Tensor, "B T S"]:
    """The softmax over the source positions that are not padding. If all are padding, the result is zero."""
    if mask is None:
        return scores.softmax(-1)
    empty = ~mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask & ~empty, -math.inf).softmax(-1).masked_fill(empty, 0.0)


ATTENTIONS: dict[str, Any] = {"none": FixedContext, "additive": AdditiveAttention, "dot": DotAttention}


# ---------------------------------------------------------------- the model


class Seq2Seq(EncoderDecoderModel):
    """A recurrent encoder-decoder with one embedding for source and target.

        model = Seq2Seq(Seq2SeqConfig(vocab_size=1000, attention="none"))
        logits = model(source_ids, target_ids)      # (B, S), (B, T) -> (B, T, V)

    The decoder starts at s_0 = tanh(W_s h), where h is the encoder's last state (Cho et al.), or its backward
    state at position 1 if it is bidirectional (Bahdanau et al.). The output layer reads tanh(W_c [c_i; s_i])
    (Luong et al., equation 5). Padding with `pad_token_id` does not change the results.
    """

    model_type: ClassVar[str] = "seq2seq"
    config_class: ClassVar[type] = Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = check_config(config, self.config_class)
        rnn = RNN_TYPES[config.rnn_type]
        layers = config.num_layers
        embedding = config.embedding_dim
        hidden = config.hidden_size
        memory = config.memory_size
        options: dict[str, Any] = {"batch_first": True, "dropout": config.dropout if layers > 1 else 0.0}
        self.embedding = TokenEmbedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = rnn(embedding, hidden, layers, bidirectional=config.bidirectional, **options)
        self.attention = ATTENTIONS[config.attention](config)
        inputs = embedding + (memory if self.attention.enters_recurrence else 0)
        self.decoder = rnn(inputs, hidden, layers, **options)
        states = 2 if config.rnn_type == "lstm" else 1  # h and c, or h
        summary = hidden if self.attention.attends else memory
        self.start = nn.Linear(summary, states * layers * hidden)  # W_s
        self.combine = nn.Linear(memory + hidden, embedding, bias=False)  # W_c
        self.output = None if config.tie_word_embeddings else nn.Linear(embedding, config.vocab_size)

    @property
    def max_length(self) -> int | None:
        """None: the length is not limited, as the network has no positions."""
        return None

    def new_cache(self, max_length: int = 0) -> RecurrentCache:
        """An empty cache for decoding. It holds the decoder's states, whatever the length of the target."""
        return RecurrentCache()

    # ------------------------------------------------------------ encoder

    def encode(self, source: Any, source_mask: Any = None) -> Float[Tensor, "B S M"]:
        """The encoder's state at each position of source ids (B, S); without attention, only the last.

        `source_mask` defaults to the padding mask. Without attention, the result is (B, 1, M).
        """
        x = self.dropout(self.embedding(source))
        mask = self.padding_mask(source) if source_mask is None else key_mask(source_mask, x)
        real = real_columns(mask, x)
        memory, last = scan(self.encoder, x, (), real)
        if self.attention.attends:
            return memory
        directions = 2 if self.config.bidirectional else 1
        return last[0][-directions:].transpose(0, 1).flatten(1).unsqueeze(1)

    def first_states(self, memory: Float[Tensor, "B S M"], real: Any = None) -> States:
        """The decoder's states before the first target token, tanh(W_s h), computed from the memory.

        `real` (B, S) is False for source padding.
        """
        hidden, layers = self.config.hidden_size, self.config.num_layers
        if not self.attention.attends:
            h = memory[:, 0]
        elif self.config.bidirectional:
            h = memory[:, 0, hidden:]  # the backward state at position 1 has read the whole source
        else:
            last = -1 if real is None else real.shape[1] - 1 - real[:, ::-1].argmax(1)
            h = memory[np.arange(len(memory)), last]
        states = self.start(h).tanh().reshape(len(memory), -1, layers, hidden)
        return tuple(part.squeeze(1).transpose(0, 1) for part in states.split(1, 1))

    # ------------------------------------------------------------ decoder

    def decode(
        self,
        target: Any,
        memory: Float[Tensor, "B S M"],
        source_mask: Any = None,
        target_mask: Any = None,
        cache: RecurrentCache | None = None,
    ) -> Float[Tensor, "B T E"]:
        """The decoder's hidden states of target ids (B, T), given the `memory` that `encode` returned.

        Pass the same `source_mask` as to `encode`; without it, padding in the memory is attended to. With a
        `cache`, the ids follow the ids of earlier calls.
        """
        states, context, _ = self._decode(target, memory, source_mask, target_mask, cache)
        return self.dropout(self.combine(cat([context, states], -1)).tanh())

    def attention_weights(self, source: Any, target: Any) -> Float[Tensor, "B T S"]:
        """The attention weights a_ij of each of the target ids (B, T) on each of the source ids (B, S)."""
        if not self.attention.attends:
            raise UserError(
                "a fixed context vector has no attention weights.\n"
                'Build the model with attention="additive" or attention="dot".'
            )
        mask = self.padding_mask(source)
        return self._decode(target, self.encode(source, mask), mask)[2]

    def _decode(
        self,
        target: Any,
        memory: Tensor,
        source_mask: Any = None,
        target_mask: Any = None,
        cache: RecurrentCache | None = None,
    ) -> tuple[Tensor, Tensor, Any]:
        """The decoder's states s_i, the contexts c_i, and the attention weights a_ij."""
        x = self.dropout(self.embedding(target))  # (B, T, E)
        check_same_batch(x, memory)
        cache = RecurrentCache() if cache is None else cache
        read = real_columns(key_mask(source_mask, memory), memory) if self.attention.attends else None
        written = real_columns(target_mask, x, cache.length)
        with cache:
            if self.attention.attends and cache.keys is None:
                cache.keys = self.attention.keys(memory)
            source = Source(memory, cache.keys, None if read is None else Tensor(read[:, None]).to(x.device))
            before = cache.read(len(x)) or self.first_states(memory, read)
            states, context, weights, after = self.attention(self.decoder, x, source, before, written)
            cache.update(after, x.shape[1])
        return states, context, weights

    def logits(self, states: Float[Tensor, "B T E"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        return self.embedding.logits(states) if self.output is None else self.output(states)
