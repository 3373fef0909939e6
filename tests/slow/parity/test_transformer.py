"""The whole model against torch.nn.Transformer with the same weights: every output, every gradient."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import MultiHeadAttention, Transformer, TransformerConfig
from minitransformer.layers.masks import causal_mask, from_blocked, padding_mask
from minitransformer.layers.positions import positional_encoding

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore::UserWarning")]

V = 23
D = 16
H = 4
FF = 24
N = 2
PAD = 0
SOURCE = np.array([[5, 6, 7, 8, 9], [3, 4, 2, 0, 0], [11, 0, 0, 0, 0]])
TARGET = np.array([[2, 6, 1, 9], [2, 5, 5, 0], [2, 7, 0, 0]])

# torch's name -> ours, within a layer
NAMES = {
    "self_attn": "self_attention", "multihead_attn": "cross_attention",
    "linear1": "feed_forward.linear1", "linear2": "feed_forward.linear2",
    "norm1": "residual1.norm", "norm2": "residual2.norm", "norm3": "residual3.norm",
}  # fmt: skip


def our_name(name):
    for theirs, ours in NAMES.items():
        name = name.replace(f".{theirs}.", f".{ours}.")
    return name


def pair(dtype, norm_first):
    """torch's encoder and decoder and our model, with the same weights."""
    torch.manual_seed(0)
    settings = {
        "d_model": D,
        "nhead": H,
        "dim_feedforward": FF,
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": norm_first,
        "dtype": dtype,
    }
    norm = lambda: torch.nn.LayerNorm(D, dtype=dtype) if norm_first else None
    theirs = torch.nn.ModuleDict(
        {
            "encoder": torch.nn.TransformerEncoder(
                torch.nn.TransformerEncoderLayer(**settings), N, norm(), enable_nested_tensor=False
            ),
            "decoder": torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(**settings), N, norm()),
        }
    )
    with torch.no_grad():
        for p in theirs.parameters():  # also of biases and norms, which begin as zeros and ones
            p += 0.1 * torch.randn_like(p)
    ours = Transformer(
        TransformerConfig(
            V, D, H, FF, N, N, dropout=0.0, norm_first=norm_first, scale_embeddings=False, pad_token_id=PAD
        )
    ).to(str(dtype).removeprefix("torch."))
    state = {our_name(n): p.detach().numpy() for n, p in theirs.named_parameters()}
    ours.load_state_dict({**state, "embedding.weight": ours.embedding.weight})
    return theirs, ours


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_outputs_and_every_gradient_agree_with_torch(dtype, tolerance, norm_first, fused):
    theirs, ours = pair(getattr(torch, dtype), norm_first)
    embedding = ours.embedding.weight
    weight = np.random.default_rng(1).normal(size=(*TARGET.shape, V)).astype(dtype)

    # torch: the embedding, the sinusoids and the output layer from the same numbers
    e = torch.tensor(embedding.numpy(), requires_grad=True)
    place = lambda ids: torch.tensor(positional_encoding(ids.shape[1], D, dtype))
    pad_s = torch.tensor(SOURCE == PAD)
    pad_t = torch.tensor(TARGET == PAD)
    blocked = torch.ones(TARGET.shape[1], TARGET.shape[1], dtype=torch.bool).triu(1)
    memory = theirs["encoder"](e[torch.tensor(SOURCE)] + place(SOURCE), src_key_padding_mask=pad_s)
    states = theirs["decoder"](
        e[torch.tensor(TARGET)] + place(TARGET),
        memory,
        tgt_mask=blocked,
        tgt_key_padding_mask=pad_t,
        memory_key_padding_mask=pad_s,
    )
    expected = states @ e.T
    (expected * torch.tensor(weight)).sum().backward()

    with mg.fused(fused):
        logits = ours(SOURCE, TARGET, target_mask=causal_mask(TARGET.shape[1]) & padding_mask(TARGET, PAD))
        (logits * mg.tensor(weight)).sum().backward()

    np.testing.assert_allclose(logits.numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    gradients = {our_name(n): p.grad.numpy() for n, p in theirs.named_parameters()} | {
        "embedding.weight": e.grad.numpy()
    }
    assert gradients.keys() == dict(ours.named_parameters()).keys()
    for name, p in ours.named_parameters():
        scale = max(1.0, np.abs(gradients[name]).max())
        np.testing.assert_allclose(
            p.grad.numpy() / scale, gradients[name] / scale, rtol=tolerance, atol=tolerance, err_msg=name
        )


def test_multi_head_attention_agrees_with_torch():
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D, H).double()
    ours.load_state_dict({name: p.numpy() for name, p in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, 3, D))
    memory = rng.normal(size=(2, 5, D))
    blocked = np.array([[False, True, False, False, True], [True] * 4 + [False], [False] * 5])
    expected, _ = theirs(
        torch.tensor(query), torch.tensor(memory), torch.tensor(memory), attn_mask=torch.tensor(blocked)
    )
    given = ours(mg.tensor(query), mg.tensor(memory), from_blocked(blocked))
    np.testing.assert_allclose(given.numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
