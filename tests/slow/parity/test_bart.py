"""BART against Hugging Face's, with the same random weights."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer.models.bart import BART, BARTConfig

from .from_transformers import as_theirs, assert_same_training, randomized

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

V = 29
SOURCE = np.array([[5, 6, 7, 8, 9, 2], [3, 4, 2, 1, 1, 1], [11, 2, 1, 1, 1, 1]])
LABELS = np.array([[6, 4, 9, 2], [5, 5, 2, -100], [2, -100, -100, -100]])
TARGET = np.array([[2, 6, 4, 9], [2, 5, 5, 1], [2, 1, 1, 1]])
REAL = TARGET != 1


def pair(std=0.2, **settings):
    """Our BART and theirs, with the same weights."""
    config = BARTConfig(
        V, max_position_embeddings=24, encoder_layers=2, encoder_ffn_dim=20, encoder_attention_heads=2,
        decoder_layers=1, decoder_ffn_dim=16, decoder_attention_heads=3, d_model=12,
        dropout=0.0, **settings,
    )  # fmt: skip
    mg.manual_seed(0)
    ours = randomized(BART(config), std)
    ours.final_logits_bias.array[:] = np.random.default_rng(1).normal(size=V)
    return ours, as_theirs(ours)


@pytest.mark.parametrize(
    "settings", [{}, {"scale_embedding": True, "activation_function": "relu"}], ids=["BART", "options"]
)
def test_logits_loss_and_every_gradient_agree(settings):
    ours, theirs = pair(**settings)
    assert_same_training(ours, theirs, SOURCE, TARGET, REAL, LABELS)
