"""GPT-2 and Llama against Hugging Face's, with the same random weights: logits, loss and every gradient."""

import numpy as np
import pytest

from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig, Llama, LlamaConfig

from .from_transformers import as_theirs, assert_same_gradients, randomized

pytestmark = pytest.mark.parity

V = 23
IDS = np.array([[3, 9, 4, 1, 7], [0, 0, 5, 8, 2]])
REAL = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
LABELS = np.where(REAL == 1, IDS, -100)


def gpt2():
    sizes = {"vocab_size": V, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}
    pdrop = dict.fromkeys(["embd_pdrop", "resid_pdrop", "attn_pdrop"], 0.0)
    return GPT(GPTConfig(**sizes, **pdrop))


def llama(**options):
    sizes = {
        "vocab_size": V, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, **options,
    }  # fmt: skip
    return Llama(LlamaConfig(**sizes))


@pytest.mark.parametrize(
    "make",
    [
        gpt2,
        llama,
        lambda: llama(head_dim=6, tie_word_embeddings=True, num_key_value_heads=4, rope_theta=50.0),
    ],
    ids=["gpt2", "llama", "llama with options"],
)
def test_logits_loss_and_every_gradient_agree(make):
    ours = randomized(make())
    theirs = as_theirs(ours)
    import torch

    positions = torch.tensor((REAL.cumsum(1) - 1).clip(0))
    expected = theirs(
        torch.tensor(IDS), attention_mask=torch.tensor(REAL), position_ids=positions,
        labels=torch.tensor(LABELS),
    )  # fmt: skip
    logits = ours(IDS, REAL)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, V), LABELS[:, 1:].ravel(), ignore_index=-100)
    real = REAL == 1
    np.testing.assert_allclose(
        logits.numpy()[real], expected.logits.detach().numpy()[real], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(loss.item(), expected.loss.item(), rtol=1e-5)
    loss.backward()
    expected.loss.backward()
    assert_same_gradients(theirs, ours)
