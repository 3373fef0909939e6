"""BERT under each head against Hugging Face's, with the same weights: logits, loss and every gradient."""

import numpy as np
import pytest

from minigrad.nn import functional as F
from minitransformer import BERT, BERTConfig

from .from_transformers import as_theirs, assert_same_gradients, randomized

pytestmark = pytest.mark.parity

SIZE = {
    "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 12, "max_position_embeddings": 7,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
IDS = np.array([[1, 5, 6, 2, 7, 8, 2], [1, 3, 2, 9, 2, 0, 0]])
REAL = IDS != 0
TYPES = np.array([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]])
WORDS = np.array([[-100, 5, -100, -100, 9, -100, -100], [-100, -100, -100, 3, -100, -100, -100]])
TAGS = np.array([[0, 1, 2, 0, 1, 1, 0], [2, 0, 1, 1, 0, -100, -100]])
LABELS = np.array([1, 0])

each = lambda logits, labels: F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

# head -> their labels, our loss, our logits in their order
HEADS = {
    "masked_lm": ({"labels": WORDS}, lambda out: each(out, WORDS), lambda out: [out]),
    "next_sentence": (
        {"labels": LABELS}, lambda out: each(out, LABELS), lambda out: [out],
    ),
    "pretraining": (
        {"labels": WORDS, "next_sentence_label": LABELS},
        lambda out: each(out.logits, WORDS) + each(out.next_sentence_logits, LABELS),
        lambda out: [out.logits, out.next_sentence_logits],
    ),
    "classification": (
        {"labels": LABELS}, lambda out: each(out, LABELS), lambda out: [out],
    ),
    "token_classification": (
        {"labels": TAGS}, lambda out: each(out, TAGS), lambda out: [out],
    ),
    "question_answering": (
        {"start_positions": np.array([4, 1]), "end_positions": np.array([5, 3])},
        lambda out: (
            each(out.start_logits, np.array([4, 1])) + each(out.end_logits, np.array([5, 3]))
        ) / 2,
        lambda out: [out.start_logits, out.end_logits],
    ),
}  # fmt: skip


def pair(head):
    """Our model with random weights, and theirs with the same."""
    labels = 2 if head == "question_answering" else 3
    ours = randomized(BERT(BERTConfig(**SIZE, head=head, num_labels=labels)))
    return ours, as_theirs(ours)


@pytest.mark.parametrize("head", HEADS)
def test_logits_loss_and_every_gradient_agree(head):
    ours, theirs = pair(head)
    import torch

    labels, loss, logits = HEADS[head]
    out = ours(IDS, token_type_ids=TYPES)  # the mask is what pad_token_id says
    expected = theirs(
        torch.tensor(IDS),
        attention_mask=torch.tensor(REAL),
        token_type_ids=torch.tensor(TYPES),
        **{name: torch.tensor(label) for name, label in labels.items()},
    )
    given = [expected[name] for name in expected if name.endswith("logits")]
    for mine, their in zip(logits(out), given, strict=True):
        np.testing.assert_allclose(mine.numpy(), their.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loss(out).item(), expected.loss.item(), rtol=1e-4)
    loss(out).backward()
    expected.loss.backward()
    if head == "question_answering":  # their softmax is over padding too, whose word vector they freeze
        ours.embedding.weight.grad.array[0] = 0
    assert_same_gradients(theirs, ours)


def test_hidden_and_pooled_states_match_transformers():
    ours, theirs = pair("classification")
    import torch

    expected = theirs.bert(torch.tensor(IDS), attention_mask=torch.tensor(REAL))
    states = ours.states(IDS, REAL)
    np.testing.assert_allclose(states.numpy(), expected.last_hidden_state.detach().numpy(), atol=1e-5)
    pooled = ours.head.pool(states).numpy()
    np.testing.assert_allclose(pooled, expected.pooler_output.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("ids", [[0, 5, 6, 2], [5, 0, 6, 2], [0, 0, 5, 0, 2], [0, 5, 2, 2, 0, 7, 2]])
def test_padding_ids_inside_a_text_are_not_masked(ids):
    """A config.json may give the id of <s>, as that of multilingual MiniLM; theirs is without a mask."""
    ours, theirs = pair("token_classification")
    import torch

    expected = theirs(torch.tensor([ids])).logits.detach().numpy()[0]
    np.testing.assert_allclose(ours([ids]).numpy()[0], expected, rtol=1e-5, atol=1e-5)
    padded = ours([ids + [0] * (7 - len(ids))]).numpy()[0, : len(ids)]
    np.testing.assert_allclose(padded, expected, rtol=1e-5, atol=1e-5)
