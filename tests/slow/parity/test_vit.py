"""ViT against Hugging Face's, with the same random weights: logits, loss and every gradient."""

import numpy as np
import pytest

from minigrad.nn import functional as F
from minitransformer import ViT, ViTConfig

from .from_transformers import as_theirs, assert_same_gradients, randomized

pytestmark = pytest.mark.parity

SIZE = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "image_size": 6, "patch_size": 3, "num_channels": 2, "num_labels": 3,
}  # fmt: skip


@pytest.mark.parametrize("qkv_bias", [True, False])
def test_logits_loss_and_every_gradient_agree(qkv_bias):
    ours = randomized(ViT(ViTConfig(**SIZE, qkv_bias=qkv_bias)))
    theirs = as_theirs(ours)
    import torch

    images = np.random.default_rng(0).normal(size=(4, 2, 6, 6)).astype(np.float32)
    labels = np.array([2, 0, 1, 1])
    logits = ours(images)
    loss = F.cross_entropy(logits, labels)
    expected = theirs(torch.tensor(images), labels=torch.tensor(labels))
    np.testing.assert_allclose(logits.numpy(), expected.logits.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loss.item(), expected.loss.item(), rtol=1e-4)
    loss.backward()
    expected.loss.backward()
    assert_same_gradients(theirs, ours)
