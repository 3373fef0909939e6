"""Recording: attention weights are those computed by hand, and a model that is recorded computes the same."""

import contextlib
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from minitransformer import (
    BART,
    BERT,
    T5,
    BARTConfig,
    BERTConfig,
    RecurrentConfig,
    RecurrentLM,
    Seq2Seq,
    Seq2SeqConfig,
    T5Config,
    Transformer,
    TransformerConfig,
    ViT,
    ViTConfig,
    ablate_heads,
    attention_distance,
    attention_entropy,
    generate,
    logit_lens,
    record_activations,
    record_attention,
)
from minitransformer.errors import UserError
from minitransformer.layers.attention import MultiHeadAttention
from tests.models.test_properties import V, gpt, llama

SOURCE = np.array([[4, 5, 6, 3], [7, 3, 0, 0]])  # padded on the right with 0
TARGET = np.array([[2, 4, 5], [2, 8, 9]])
PIXELS = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
DROP = 0.3


def transformer(**options):
    return Transformer(TransformerConfig(V, 8, 4, 12, 2, 2, DROP, DROP, max_positions=12, **options))


def seq2seq(**options):
    return Seq2Seq(Seq2SeqConfig(V, embedding_dim=6, hidden_size=5, dropout=DROP, **options))


MODELS = {  # a model, and what it is called with
    "gpt2": (gpt(attn_pdrop=DROP), [TARGET]),
    "alibi, grouped queries": (gpt(positions="alibi", n_kv_head=2, attn_pdrop=DROP), [TARGET]),
    "llama": (llama(num_key_value_heads=2, attention_dropout=DROP), [TARGET]),
    "transformer": (transformer, [SOURCE, TARGET]),
    "bert": (lambda: BERT(BERTConfig(V, 8, 2, 4, 12, initializer_range=0.5)), [SOURCE]),
    "bart": (
        lambda: BART(
            BARTConfig(V, 12, 2, 12, 4, 2, 12, 2, "gelu", 8, DROP, DROP, init_std=0.5, pad_token_id=0)
        ),
        [SOURCE, TARGET],
    ),
    "t5": (lambda: T5(T5Config(V, 8, 4, 12, 2, num_heads=2, dropout_rate=DROP)), [SOURCE, TARGET]),
    "vit": (lambda: ViT(ViTConfig(8, 2, 2, 12, attention_probs_dropout_prob=DROP, initializer_range=0.5,
                                  image_size=4, patch_size=2, num_channels=1, num_labels=3)), [PIXELS]),
    "additive": (lambda: seq2seq(attention="additive"), [SOURCE, TARGET]),
    "dot": (lambda: seq2seq(attention="dot", num_layers=2, bidirectional=False), [SOURCE, TARGET]),
}  # fmt: skip
WITH_HEADS = [name for name in MODELS if name not in ("additive", "dot")]
FAMILIES = pytest.mark.parametrize("family", MODELS)


def built(family):
    make, inputs = MODELS[family]
    model = make()
    for name, p in model.named_parameters():  # far from uniform, so that a wrong head or mask shows
        if "in_proj" in name and not name.endswith("bias"):
            p.array *= 2
    return model, inputs


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotated(x, theta):
    """x (B, H, T, d): the pairs (x_i, x_(i + d/2)) as complex numbers, turned by their positions."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[2])[:, None] * theta ** (-np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], -1)


def by_hand(layer, query, memory=None, mask=None, is_causal=False, cache=None):
    """The weights of a layer of multi-head attention in float64, from its inputs and its parameters."""
    x = query.numpy().astype(float)
    y = x if memory is None else memory.numpy().astype(float)
    w = layer.in_proj_weight.numpy().astype(float)
    d = layer.head_dim
    b = np.zeros(len(w)) if layer.in_proj_bias is None else layer.in_proj_bias.numpy().astype(float)
    q_rows = layer.num_heads * d
    k_rows = layer.num_kv_heads * d
    heads = lambda z: z.reshape(*z.shape[:2], -1, d).transpose(0, 2, 1, 3)
    q = heads(x @ w[:q_rows].T + b[:q_rows])
    k = heads(y @ w[q_rows : q_rows + k_rows].T + b[q_rows : q_rows + k_rows])
    k = np.repeat(k, layer.num_heads // layer.num_kv_heads, 1)
    if layer.rope_theta is not None:
        q = rotated(q, layer.rope_theta)
        k = rotated(k, layer.rope_theta)
    scores = np.einsum("bhtd,bhsd->bhts", q, k) * layer.scale
    if mask is not None:
        mask = mask.numpy()
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask)
    if is_causal:
        scores[
            ..., np.triu_indices(scores.shape[-1], 1)[0], np.triu_indices(scores.shape[-1], 1)[1]
        ] = -np.inf
    return softmax(scores)


def recurrent_by_hand(attention, decoder, x, source, states, written, output):
    """Bahdanau's and Luong's weights, from the decoder's states."""
    h = output[0].numpy().astype(float)
    memory = source.memory.numpy().astype(float)
    if hasattr(attention, "score"):
        before = np.concatenate([states[0][-1].numpy()[:, None], h[:, :-1]], 1)  # s_(i-1)
        query = before @ attention.query.weight.numpy().T
        key = memory @ attention.key.weight.numpy().T
        scores = np.tanh(query[:, :, None] + key[:, None]) @ attention.score.weight.numpy()[0]
    else:
        scores = np.einsum("bth,bsh->bts", h, memory)
    return softmax(np.where(source.mask.numpy(), scores, -np.inf))[:, None]


@FAMILIES
def test_recorded_maps_match_weights_computed_by_hand(family):
    model, inputs = built(family)
    model.eval()
    expected = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            module.register_forward_hook(
                lambda m, args, out, path=path: expected.update({path: by_hand(m, *args)})
            )
        elif getattr(module, "attends", False):
            module.register_forward_hook(
                lambda m, args, out, path=path: expected.update({path: recurrent_by_hand(m, *args, out)})
            )
    with record_attention(model) as maps:
        model(*inputs)
    assert list(maps) == list(expected)
    for path, weights in maps.items():
        assert weights.shape == expected[path].shape
        np.testing.assert_allclose(weights.numpy(), expected[path], atol=2e-6)
        assert np.ptp(weights.numpy()) > 0.1  # heads that attend to all alike would agree with any


def test_recorded_maps_are_named_by_module_path():
    with record_attention(transformer().eval()) as maps:
        assert not maps
    with record_attention(transformer().eval()) as maps, record_attention(gpt()()) as others:
        transformer()(SOURCE, TARGET)
    assert not maps  # the model that ran is another one
    assert not others
    model = transformer()
    with record_attention(model) as maps:
        model(SOURCE, TARGET)
    stacks = {"encoder": ["self_attention"], "decoder": ["self_attention", "cross_attention"]}
    assert list(maps) == [f"{s}.layers.{i}.{a}" for s, names in stacks.items() for i in (0, 1) for a in names]
    assert maps["decoder.layers.1.cross_attention"].shape == (2, 4, 3, 4)
    assert not maps["decoder.layers.1.cross_attention"].requires_grad


@pytest.mark.parametrize("is_fused", [True, False], ids=["kernels", "definitions"])
@FAMILIES
def test_recording_attention_does_not_change_results(family, is_fused):
    """Of outputs, gradients and the draws of dropout; and its weights are those before dropout."""
    model, inputs = built(family)
    model.train()

    def step():
        mg.manual_seed(3)
        model.zero_grad()
        output = model(*inputs)
        output.sum().backward()
        return output.numpy(), [p.grad.numpy().copy() for p in model.parameters() if p.grad is not None]

    with mg.fused(is_fused):
        plain, gradients = step()
        with record_attention(model) as maps, record_activations(model) as outputs:
            recorded, recorded_gradients = step()
    assert np.array_equal(plain, recorded)
    assert all(map(np.array_equal, gradients, recorded_gradients))
    assert maps
    assert np.array_equal(outputs[""].numpy(), plain)
    for weights in maps.values():
        np.testing.assert_allclose(weights.numpy().sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("use_cache", [True, False], ids=["cached", "uncached"])
@pytest.mark.slow
def test_generation_records_each_step(use_cache):
    model = built("llama")[0].eval()
    prompt = [[2, 4, 5], [8, 9, 6]]
    with record_attention(model) as maps:
        (first, second) = generate(model, prompt, 3, eos_token_id=(), use_cache=use_cache)
    steps = maps["layers.layers.1.self_attention"]
    assert [w.shape for w in steps] == [(2, 4, 1 if use_cache and t else 3 + t, 3 + t) for t in range(3)]
    with record_attention(model) as maps, mg.no_grad():
        model(np.array([prompt[0] + first, prompt[1] + second]))
    whole = maps["layers.layers.1.self_attention"].numpy()
    for t, step in enumerate(steps):
        rows = slice(2 + t, 3 + t) if use_cache and t else slice(0, 3 + t)
        np.testing.assert_allclose(step.numpy(), whole[:, :, rows, : 3 + t], atol=1e-5)


def test_recorded_maps_have_one_row_per_beam():
    model = transformer().eval()
    with record_attention(model) as maps:
        generate(model, SOURCE[:, :2], 3, eos_token_id=(), num_beams=3)
    shapes = [w.shape for w in maps["decoder.layers.0.cross_attention"]]
    assert shapes == [(2, 4, 1, 2), (6, 4, 1, 2), (6, 4, 1, 2)]
    memory = mg.randn(2, 4, 8)
    layer = model.decoder.layers[0].cross_attention
    query = mg.randn(6, 1, 8)
    cache = model.new_cache().layers[0].cross_attention
    with mg.no_grad(), record_attention(layer) as maps:
        layer(query[::3], memory, cache=cache)
        cache.beams = 3
        layer(query, memory.repeat_interleave(3, 0), cache=cache)
        layer(query, memory.repeat_interleave(3, 0))
    np.testing.assert_allclose(maps[""][1].numpy(), maps[""][2].numpy(), atol=1e-6)


class Attention(nn.Module):
    """A user's own."""

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def test_models_without_attention_layers_cannot_be_recorded():
    with pytest.raises(UserError, match="Sequential has no attention layer"):
        record_attention(nn.Sequential(nn.Linear(4, 4), Attention())).__enter__()


def test_recording_stops_at_the_end_of_the_context():
    model = transformer().eval()
    with contextlib.suppress(ZeroDivisionError), record_attention(model) as maps:
        model(SOURCE, TARGET)
        raise ZeroDivisionError
    model(SOURCE, TARGET)
    assert maps["encoder.layers.1.self_attention"].shape == (2, 4, 4, 4)


def test_fully_masked_queries_have_zero_weights():
    layer = MultiHeadAttention(8, 2)
    x = mg.randn(1, 2, 8)
    with record_attention(layer) as maps:
        layer(x, mask=mg.tensor([[True, False], [False, False]]))
    assert maps[""].numpy()[0].tolist() == [[[1, 0], [0, 0]]] * 2


def test_half_precision_attention_is_recorded_in_float32():
    model = built("gpt2")[0].eval()
    with record_attention(model) as exact:
        model(TARGET)
    with record_attention(model) as maps, mg.autocast(dtype=mg.bfloat16):
        model(TARGET)
    for path, weights in maps.items():
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.numpy(), exact[path].numpy(), atol=0.1)


def test_recorded_weights_on_gpu_match_the_cpu(gpu):
    model = transformer().eval()
    with record_attention(model) as expected:
        logits = model(SOURCE, TARGET).numpy()
    model.to("cuda")
    with record_attention(model) as maps, ablate_heads(model, {"*": []}):
        np.testing.assert_allclose(model(SOURCE, TARGET).numpy(), logits, atol=1e-5)
    for path, weights in maps.items():
        assert str(weights.device).startswith("cuda")
        np.testing.assert_allclose(weights.numpy(), expected[path].numpy(), atol=1e-6)
    np.testing.assert_allclose(
        list(logit_lens(model, SOURCE, TARGET).values())[-1].numpy(), softmax(logits), atol=1e-6
    )


# ---------------------------------------------------------------- statistics of heads


def test_attention_entropy_and_distance_match_definitions():
    weights = np.zeros((2, 3, 2, 4))
    weights[:, 0, :, 0] = 1  # the first token
    weights[:, 1] = 0.25  # all alike
    weights[:, 2, [0, 1], [0, 1]] = 1  # itself
    assert attention_entropy(weights).tolist() == [0, 2, 0]
    assert attention_distance(weights).tolist() == [0.5, 1.25, 0]
    assert attention_distance(weights, past=2).tolist() == [2.5, 1.25, 2]


def test_attention_statistics_exclude_padded_queries():
    rng = np.random.default_rng(0)
    weights = softmax(rng.normal(size=(2, 3, 4, 4)))
    mask = np.array([[True] * 4, [True, True, False, False]])
    for statistic in (attention_entropy, attention_distance):
        both = np.stack([statistic(weights[0]), statistic(weights[1, :, :2])])
        expected = (both * [[4], [2]]).sum(0) / 6
        np.testing.assert_allclose(statistic(mg.tensor(weights), mask), expected)
        weights[1, :, 2:] = 0  # they attend to nothing
        np.testing.assert_allclose(statistic(weights), expected)
    with pytest.raises(UserError, match=r"mask must have shape \(2, 4\), got \(4,\)"):
        attention_entropy(weights, mask[0])
    with pytest.raises(UserError, match="got a list of 2"):
        attention_entropy([weights, weights])


# ---------------------------------------------------------------- activations, ablation, lens


def test_record_activations_returns_outputs_of_matching_modules():
    model = transformer().eval()
    with record_activations(model, "encoder.layers.[0-9]", "decoder*norm") as outputs:
        loss = model(SOURCE, TARGET).sum()
    norms = [f"decoder.layers.{i}.residual{j}.norm" for i in (0, 1) for j in (1, 2, 3)]
    assert list(outputs) == ["encoder.layers.0", "encoder.layers.1", *norms]
    assert np.array_equal(outputs["encoder.layers.1"].numpy(), model.encode(SOURCE).numpy())
    (g,) = mg.autograd.grad(loss, [outputs["encoder.layers.0"]])
    assert g.shape == (2, 4, 8)
    with record_activations(model.encoder.layers[0].feed_forward) as outputs:
        model.encode(SOURCE)
        model.encode(SOURCE)
    assert [h.shape for h in outputs["linear1"]] == [(2, 4, 12)] * 2
    model.encode(SOURCE)
    assert len(outputs["linear1"]) == 2  # no hook is left
    with pytest.raises(
        UserError, match=r"no module matches 'encoder.layers.2'. Did you mean encoder.layers.1"
    ):
        record_activations(model, "encoder.layers.2").__enter__()
    with pytest.raises(UserError, match="expected a model, got str"):
        record_attention("encoder").__enter__()


@pytest.mark.parametrize("family", ["gpt2", "llama", "transformer", "t5"])
def test_ablating_a_head_zeroes_its_output_weights(family):
    model, inputs = built(family)
    model.eval()
    path = next(path for path, m in model.named_modules() if isinstance(m, MultiHeadAttention))
    full = model(*inputs).numpy()
    with ablate_heads(model, {path: [1]}):
        ablated = model(*inputs).numpy()
    assert np.array_equal(model(*inputs).numpy(), full)
    layer = model.get_submodule(path)
    layer.out_proj.weight.array[:, layer.head_dim : 2 * layer.head_dim] = 0
    np.testing.assert_allclose(model(*inputs).numpy(), ablated, atol=1e-6)
    assert not np.allclose(full, ablated)


def test_heads_can_be_ablated_by_patterns():
    model = transformer().eval()
    every = iter(range(4))
    with (
        ablate_heads(model, {"*self_attention": every, "encoder*": [0]}),
        record_activations(model) as outputs,
    ):
        model(SOURCE, TARGET)
    for path, output in outputs.items():
        if path.endswith("self_attention"):
            assert not output.numpy().any()
        if path.endswith("cross_attention"):
            assert output.numpy().all()
    with pytest.raises(
        UserError,
        match=r"a head of encoder.layers.0.self_attention = 4 is out of range.\nChoose .* >= 0 and < 4.",
    ):
        ablate_heads(model, {"encoder.layers.0.self_attention": [4]}).__enter__()
    for heads in ([0], {"encoder.layers.0.self_attention": 1}, {"encoder.layers.0.self_attention": [0.5]}):
        with pytest.raises(UserError, match=r"expected heads by module, got|is out of range"):
            ablate_heads(model, heads).__enter__()
    with pytest.raises(UserError, match="expected the path of a module, got 3"):
        record_activations(model, 3).__enter__()
    with pytest.raises(UserError, match="no attention module with heads matches 'attention'"):
        ablate_heads(seq2seq(attention="additive"), {"attention": [0]}).__enter__()


@pytest.mark.parametrize("family", WITH_HEADS)
def test_logit_lens_treats_each_layer_as_the_last(family):
    model, inputs = built(family)
    model.train()
    with record_activations(model, "*layers.[0-9]") as outputs:
        probabilities = logit_lens(model, *inputs)
    assert model.training
    assert not any(isinstance(output, list) for output in outputs.values())  # each layer ran once
    model.eval()
    logits = model(*inputs).numpy()
    np.testing.assert_allclose(list(probabilities.values())[-1].numpy(), softmax(logits), atol=1e-6)
    path = next(p for p in ("decoder", "encoder", "layers") if hasattr(model, p))
    assert list(probabilities) == ["embedding", f"{path}.layers.0", f"{path}.layers.1"]
    stack = getattr(model, path)
    stack.layers = nn.ModuleList([stack.layers[0]])
    expected = softmax(model(*inputs).numpy())
    np.testing.assert_allclose(probabilities[f"{path}.layers.0"].numpy(), expected, atol=1e-6)
    assert not math.isclose(np.abs(expected - softmax(logits)).max(), 0, abs_tol=1e-3)


def test_models_without_layers_have_no_maps_and_no_lens():
    model = RecurrentLM(RecurrentConfig(V, 6, 6)).eval()
    with record_attention(model) as maps:
        model(TARGET)
    assert maps == {}
    with pytest.raises(UserError, match="RecurrentLM has no layers with a residual stream"):
        logit_lens(model, TARGET)
