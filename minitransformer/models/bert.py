"""BERT: the Transformer's encoder, which reads in both directions and is trained to fill in masked words
(Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding").

The model has one body and a small head for a task, which `BERTConfig.head` selects. The names of the body's
parameters do not depend on the head, so training for one task can start from the weights of another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from minigrad import Tensor, nn
from minigrad.core.errors import RangeError
from minigrad.core.tensor import as_tensor_like
from minigrad.nn import functional as F

from ..base_config import Config, check_config
from ..errors import UserError, check_choice, check_range
from ..layers.config import ACTIVATIONS, GATED, MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding, token_ids
from ..layers.encoder_decoder import Encoder
from ..layers.head_sizes import check_heads
from ..layers.masks import key_mask
from ..layers.positions import absolute_positions

States = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"] | None
POOLER_ACTIVATIONS = {"tanh": Tensor.tanh, "relu": Tensor.relu}


@dataclass(frozen=True)
class BERTConfig(Config):
    """The settings of BERT. The defaults are BERT-base, the names Hugging Face's, except `head`."""

    vocab_size: int = 30522  # in a recipe, 0 means all tokens of the training data
    hidden_size: int = 768  # size of each token's vector
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  # inner width of the feed-forward networks
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1  # of embeddings and of sub-layer outputs
    attention_probs_dropout_prob: float = 0.1  # of attention weights
    classifier_dropout: float | None = None  # of a classifier's input; None: hidden_dropout_prob
    max_position_embeddings: int = 512  # maximum sequence length, for learned positions
    type_vocab_size: int = 2  # number of kinds of segments in token_type_ids; 0: no segments (DistilBERT)
    initializer_range: float = 0.02  # standard deviation of the initial weights
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0  # in a recipe, the tokenizer's; None: no token is padding
    positions: str = "learned"  # "learned", "none", "sinusoidal", "rotary", "alibi" or "t5"
    norm: str = "layer_norm"  # "layer_norm" or "rms_norm"
    norm_first: bool = False  # whether layers are pre-norm
    pooler_hidden_act: str = "tanh"  # activation for the state of [CLS]: "tanh" or "relu" (DistilBERT)
    head: str = "masked_lm"  # what is predicted: one of HEADS, such as "classification"
    num_labels: int = 2  # number of a classifier's labels; in a recipe, 0 means all in the training data

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_eps initializer_range num_labels", 0)
        check_range(self, "hidden_size num_attention_heads intermediate_size", 1)
        check_range(self, "max_position_embeddings", 1)
        check_range(self, "type_vocab_size", 0)
        check_choice("pooler_hidden_act", self.pooler_hidden_act, POOLER_ACTIVATIONS)
        check_range(self, "num_hidden_layers", 1, MAX_LAYERS + 1)
        check_range(self, "hidden_dropout_prob attention_probs_dropout_prob", 0, 1)
        check_range(self, "classifier_dropout", 0, 1)
        check_heads(self, "hidden_size", "num_attention_heads")
        check_choice("head", self.head, HEADS)
        self.layer()

    def layer(self) -> LayerConfig:
        return LayerConfig(
            self.hidden_size, self.num_attention_heads, self.intermediate_size,
            self.hidden_dropout_prob, self.attention_probs_dropout_prob, activation=self.hidden_act,
            positions=self.positions, norm=self.norm, norm_first=self.norm_first,
            layer_norm_eps=self.layer_norm_eps,
        )  # fmt: skip


class BERT(nn.Module):
    """An encoder of text that reads in both directions: embeddings, layers and a head.

        model = BERT(BERTConfig(vocab_size=1000, head="classification", num_labels=3))
        logits = model(ids)      # (B, T) -> (B, 3)

    `mask` (B, T) is True for real tokens; by default, `pad_token_id` at the end of a row is padding.
    `token_type_ids` (B, T) are 0 in the first segment, and 1 in the second; the default is 0.

    >>> from minitransformer import BERT, BERTConfig
    >>> config = BERTConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    >>> BERT(config)(np.array([[5, 6, 7]])).shape
    (1, 3, 20)
    """

    is_encoder_decoder: ClassVar[bool] = False
    model_type: ClassVar[str] = "bert"
    config_class: ClassVar[type] = BERTConfig

    def __init__(self, config: BERTConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        self.embedding = TokenEmbedding(c.vocab_size, c.hidden_size, scale=False)
        self.positions = absolute_positions(c.positions, c.hidden_size, c.max_position_embeddings)
        segments = c.type_vocab_size
        self.token_types = TokenEmbedding(segments, c.hidden_size, scale=False) if segments else None
        self.norm = c.layer().make_norm()
        self.dropout = nn.Dropout(c.hidden_dropout_prob)
        self.encoder = Encoder(c.num_hidden_layers, replace(c.layer(), **parts))
        self.head = HEADS[c.head](c)
        self._initialize()

    def _initialize(self) -> None:
        """Draw matrices from a normal distribution, and set biases to zero."""
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=self.config.initializer_range)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    @property
    def max_length(self) -> int | None:
        """The maximum number of positions; None: no limit."""
        return self.config.max_position_embeddings if self.config.positions == "learned" else None

    def embed(self, ids: Any, token_type_ids: Any = None) -> Float[Tensor, "B T D"]:
        """The sum of token, segment and position vectors, normalized (figure 2)."""
        x = self.embedding(ids)
        if self.token_types is not None:
            x = x + self._token_types(self.token_types, ids, token_type_ids).to(x.dtype)
        elif token_type_ids is not None:
            raise UserError("token_type_ids were passed to a model without segments.\nLeave them out.")
        x = self.positions(x)
        return self.dropout(self.norm(x))

    def states(self, ids: Any, mask: Any = None, token_type_ids: Any = None) -> Float[Tensor, "B T D"]:
        """The hidden state of each token of ids (B, T), computed from all real tokens."""
        return self.encoder(self.embed(ids, token_type_ids), self.padding_mask(ids, mask))

    def forward(self, ids: Any, mask: Any = None, token_type_ids: Any = None) -> Any:
        """The output of the head, whose type and shape depend on the head."""
        mask = self.padding_mask(ids, mask)
        states = self.encoder(self.embed(ids, token_type_ids), mask)
        return self.head(states, None if mask is None else mask[:, 0, 0], self.embedding)

    def padding_mask(self, ids: Any, mask: Any = None) -> Tensor | None:
        """Check a mask (B, T), and reshape it to (B, 1, 1, T). None masks the padding at the end of rows.

        Elsewhere in a row, `pad_token_id` is an ordinary token: in the files of some pretrained models, it is
        the id of <s>.
        """
        ids = token_ids(ids)
        pad = self.config.pad_token_id
        if mask is not None or pad is None:
            return key_mask(mask, as_tensor_like(ids, self.embedding.weight))
        is_before_padding = (ids != pad)[:, ::-1].cumsum(1)[:, ::-1] > 0
        return as_tensor_like(is_before_padding[:, None, None], self.embedding.weight)

    def _token_types(self, embedding: TokenEmbedding, ids: Any, token_type_ids: Any) -> Float[Tensor, "..."]:
        """The vector of each token's segment, or of the first segment if token_type_ids is None."""
        if token_type_ids is None:
            return embedding.weight[0]
        types = token_ids(token_type_ids)
        shape = tuple(token_ids(ids).shape)
        if tuple(types.shape) != shape:
            raise UserError(
                f"token_type_ids of shape {tuple(types.shape)} for ids of shape {shape}.\n"
                f"Pass the segment of each token, 0 or 1."
            )
        try:
            return embedding(types)
        except RangeError:
            count = self.config.type_vocab_size
            raise UserError(
                f"token_type_ids range from {types.min()} to {types.max()}, but type_vocab_size={count}.\n"
                f"Pass integers from 0 to {count - 1}, or raise type_vocab_size."
            ) from None


# ---------------------------------------------------------------- heads


class Head(nn.Module):
    """The base class of heads. A head maps the states (B, T, D) to the output of a task.

    It is called with the states, the mask of real tokens (B, T) or None, and the body's token embedding.
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()


class WordPrediction(nn.Module):
    """The score of each token: the transformed state times the token embedding, plus a bias."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        d, act = config.hidden_size, config.hidden_act
        self.linear = nn.Linear(d, d)
        self.activation = ACTIVATIONS[GATED.get(act, act)]
        self.norm = config.layer().make_norm()
        self.bias = nn.Parameter(np.zeros(config.vocab_size, np.float32))

    def forward(self, states: Float[Tensor, "B T D"], embedding: TokenEmbedding) -> Float[Tensor, "B T V"]:
        logits = embedding.logits(self.norm(self.activation(self.linear(states))))
        return logits + self.bias.to(logits.dtype)


class MaskedLM(Head):
    """Predicts the original token at each position, masked or not (section 3.1, task 1)."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.words = WordPrediction(config)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> Float[Tensor, "B T V"]:
        return self.words(states, embedding)


class Pooled(Head):
    """The base class of heads that read the state of the first token, [CLS], as the state of the input."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = POOLER_ACTIVATIONS[config.pooler_hidden_act]

    def pool(self, states: States) -> Float[Tensor, "B D"]:
        return self.activation(self.pooler(states[:, 0]))


class NextSentence(Pooled):
    """Predicts whether the second segment follows the first (0) or not (1) (section 3.1, task 2)."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> Float[Tensor, "B 2"]:
        return self.next_sentence(self.pool(states))


@dataclass
class PretrainingOutput:
    """The output of the head "pretraining"."""

    logits: Float[Tensor, "B T V"]  # of the masked language model
    next_sentence_logits: Float[Tensor, "B 2"]  # whether the second segment follows the first (0) or not (1)


class Pretraining(Pooled):
    """Predicts masked words and the next sentence, the two tasks of the paper's pre-training."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.words = WordPrediction(config)
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> PretrainingOutput:
        return PretrainingOutput(self.words(states, embedding), self.next_sentence(self.pool(states)))


class Classification(Pooled):
    """Predicts a label for the whole input (section 4.1)."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.dropout = _dropout(config)
        self.classifier = _classifier(config)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> Float[Tensor, "B L"]:
        return self.classifier(self.dropout(self.pool(states)))


class TokenClassification(Head):
    """Predicts a label for each token, as for named entities (section 5.3)."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.dropout = _dropout(config)
        self.classifier = _classifier(config)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> Float[Tensor, "B T L"]:
        return self.classifier(self.dropout(states))


@dataclass
class QuestionAnsweringOutput:
    """The output of the head "question_answering". The logits of padding are not masked."""

    logits: Float[Tensor, "B T 2"]

    @property
    def start_logits(self) -> Float[Tensor, "B T"]:
        """The score of each token as the first of the answer."""
        return self.logits[..., 0]

    @property
    def end_logits(self) -> Float[Tensor, "B T"]:
        """The score of each token as the last of the answer."""
        return self.logits[..., 1]


class QuestionAnswering(Head):
    """Predicts where in the text the answer to a question starts and ends (section 4.2)."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, 2)

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> QuestionAnsweringOutput:
        return QuestionAnsweringOutput(self.classifier(states))


class Similarity(Head):
    """A unit vector for the whole input: the mean of its states, normalized (Reimers and Gurevych 2019,
    section 3).

    The dot product of the vectors of two inputs is the cosine of their angle.
    """

    def forward(self, states: States, mask: Mask, embedding: TokenEmbedding) -> Float[Tensor, "B D"]:
        if mask is not None:
            states = states * mask[:, :, None].to(states.dtype)
        return F.normalize(states.sum(1))  # the sum has the direction of the mean


def _classifier(config: BERTConfig) -> nn.Linear:
    """The linear layer from a state to the score of each label."""
    if config.num_labels < 1:
        raise UserError(
            f'head = "{config.head}" needs at least one label, got num_labels = {config.num_labels}.\n'
            f"Set num_labels to the number of labels; in a recipe, 0 means those of the training data."
        )
    return nn.Linear(config.hidden_size, config.num_labels)


def _dropout(config: BERTConfig) -> nn.Dropout:
    p = config.classifier_dropout
    return nn.Dropout(config.hidden_dropout_prob if p is None else p)


HEADS: dict[str, type[Head]] = {
    "masked_lm": MaskedLM,
    "next_sentence": NextSentence,
    "pretraining": Pretraining,
    "classification": Classification,
    "token_classification": TokenClassification,
    "question_answering": QuestionAnswering,
    "similarity": Similarity,
}
