"""The key/value cache: decoding with it is decoding without it, at any step, for any rows."""

from itertools import pairwise

import numpy as np
import pytest

import minigrad as mg
from minitransformer import GPT, GPTConfig, MultiHeadAttention, Transformer, TransformerConfig, generate
from minitransformer.errors import UserError
from minitransformer.layers.cache import Cache, KeyValueCache

SOURCES = [[4, 5, 6, 3], [7, 3], [8, 8, 4, 5, 6, 7, 3], [5, 3], [6, 4, 3]]
PADDED = np.array([ids + [0] * (7 - len(ids)) for ids in SOURCES])
VARIANTS = [{}, {"norm_first": True}, {"positions": "learned"}, {"norm_first": True, "activation": "gelu"}]


def translator(**config):
    mg.manual_seed(5)
    return Transformer(TransformerConfig(9, 8, 2, 12, 2, 2, max_positions=12, **config)).eval()


@pytest.fixture
def gpt():
    mg.manual_seed(1)
    model = GPT(GPTConfig(7, 16, 8, 2, 2)).eval()
    for p in model.parameters():
        if p.ndim == 2:
            p.array *= 10  # far from uniform, so that the text differs from position to position
    return model


@pytest.fixture(params=[True, False], ids=["fused", "readable"])
def either_way(request):
    with mg.fused(request.param):
        yield


def in_pieces(read, ids, sizes):
    """The results of `read` on consecutive pieces of ids (B, T), concatenated."""
    edges = np.cumsum([0, *sizes])
    return np.concatenate([read(ids[:, a:b]).numpy() for a, b in pairwise(edges)], 1)


@pytest.mark.parametrize("sizes", [[1] * 10, [4, 1, 1, 1, 1, 1, 1], [3, 5, 2], [10]])
@mg.no_grad()
def test_cached_logits_match_uncached_logits(gpt, either_way, sizes):
    ids = np.random.default_rng(0).integers(0, 7, (3, 10))
    cache = gpt.new_cache()
    found = in_pieces(lambda piece: gpt.logits(gpt.states(piece, cache)), ids, sizes)
    np.testing.assert_allclose(found, gpt(ids).numpy(), rtol=1e-5, atol=1e-5)
    assert cache.length == 10


@pytest.mark.parametrize("config", VARIANTS)
def test_cached_translations_match_uncached_translations(either_way, config):
    model = translator(**config)
    assert generate(model, SOURCES, 11) == generate(model, SOURCES, 11, use_cache=False)
    found = []
    for use_cache in (True, False):
        mg.manual_seed(0)
        found.append(generate(model, SOURCES, 11, do_sample=True, temperature=2.0, use_cache=use_cache))
    assert found[0] == found[1]
    assert len({len(ids) for ids in found[0]}) > 2  # some rows left the batch before others


@pytest.mark.parametrize("settings", [{}, {"top_k": 3}, {"temperature": 0.5}])
def test_cached_samples_match_uncached_samples(gpt, settings):
    def sampled(model, inputs, use_cache):
        mg.manual_seed(3)
        return generate(model, inputs, 11, do_sample=True, use_cache=use_cache, **settings)

    for model, inputs in ((gpt, [[1, 2], [3, 4], [5, 6]]), (translator(), SOURCES)):
        assert sampled(model, inputs, True) == sampled(model, inputs, False)


@pytest.mark.parametrize("prompt", [1, 15, 16, 17, 20])
def test_cache_does_not_change_generation_past_the_context_length(gpt, prompt):
    prompts = np.random.default_rng(0).integers(0, 7, (2, prompt)).tolist()
    assert generate(gpt, prompts, 20) == generate(gpt, prompts, 20, use_cache=False)


def test_a_step_reads_only_the_new_token(gpt):
    lengths = []
    gpt.embedding.register_forward_hook(lambda module, args, output: lengths.append(output.shape[1]))
    generate(gpt, [[1, 2, 3]], 4)
    assert lengths == [3, 1, 1, 1]


def test_the_encoder_memory_is_projected_once(monkeypatch):
    model = translator()
    lengths = []
    append = KeyValueCache.append
    monkeypatch.setattr(
        KeyValueCache,
        "append",
        lambda cache, kv, heads: lengths.append(kv.shape[1]) or append(cache, kv, heads),
    )
    generate(model, [[4, 5, 6, 7, 3]], 3, eos_token_id=0)
    assert lengths.count(5) == len(model.decoder.layers)


@mg.no_grad()
def test_the_cache_buffer_grows_by_doubling():
    cache = KeyValueCache()
    capacities = []
    rows = np.random.default_rng(0).normal(size=(2, 33, 12)).astype(np.float32)
    for t in range(33):
        together = cache.append(mg.tensor(np.concatenate([rows, -rows], -1)[:, t : t + 1]), 3)
        capacities.append(cache.buffer.shape[1])
    np.testing.assert_array_equal(together, np.concatenate([rows, -rows], -1))
    np.testing.assert_array_equal(cache.keys, rows.reshape(2, 33, 3, 4).swapaxes(1, 2))
    np.testing.assert_array_equal(cache.values, -cache.keys)
    assert sorted(set(capacities)) == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(("new_tokens", "capacity"), [(0, None), (3, 5), (8, 10), (100, 16)])
def test_the_cache_is_allocated_for_the_whole_text_at_once(gpt, monkeypatch, new_tokens, capacity):
    """And at most for the model's positions."""
    capacities = []
    caches = []
    grow = KeyValueCache._grow
    new_cache = type(gpt).new_cache

    def watched(cache, new, length):
        grow(cache, new, length)
        capacities.append(cache.buffer.shape[1])

    monkeypatch.setattr(KeyValueCache, "_grow", watched)
    monkeypatch.setattr(type(gpt), "new_cache", lambda *a: caches.append(new_cache(*a)) or caches[-1])
    generate(gpt, [[1, 2]], new_tokens)
    assert len(caches) == 1
    assert capacities == ([] if capacity is None else [capacity] * len(caches[0].layers))


def test_a_cache_does_not_support_gradients(gpt):
    with pytest.raises(UserError, match="cache does not support gradients"):
        gpt.states([[1]], gpt.new_cache())


@mg.no_grad()
def test_a_cache_keeps_the_dtype():
    attention = MultiHeadAttention(8, 2).double()
    x = mg.randn(1, 3, 8, dtype="float64")
    cache = KeyValueCache()
    pieces = [attention(x[:, t : t + 1], is_causal=True, cache=cache).numpy() for t in range(3)]
    np.testing.assert_allclose(np.concatenate(pieces, 1), attention(x, is_causal=True).numpy(), atol=1e-12)
    assert cache.buffer.dtype == np.float64


def check_continues(gpt, cache, ids, read):
    """The logits after the first `read` columns of ids are those without a cache."""
    found = gpt.logits(gpt.states(ids[:, read:], cache)).numpy()
    np.testing.assert_allclose(found, gpt(ids).numpy()[:, read:], rtol=1e-5, atol=1e-5)


@mg.no_grad()
def test_a_gpt_continues_with_the_selected_rows(gpt):
    ids = np.random.default_rng(0).integers(0, 7, (4, 5))
    cache = gpt.new_cache()
    gpt.states(ids[:, :2], cache)
    cache.batch_select_indices(np.array([True, False, True, True]))
    cache.batch_select_indices([2, 0])
    check_continues(gpt, cache, ids[[3, 0]], 2)


@pytest.mark.parametrize("max_length", [0, 8])
@pytest.mark.parametrize("batch", [1, 3])
@mg.no_grad()
def test_a_different_batch_size_is_rejected_by_the_cache(gpt, max_length, batch):
    ids = np.array([[1, 2, 3], [4, 5, 6]])[: 4 - batch]
    cache = gpt.new_cache(max_length)
    gpt.states(ids[:, :2], cache)
    with pytest.raises(
        UserError, match=rf"\(batch {len(ids)}, 2 heads of 4\), .*\(batch {batch}, 2 heads of 4\).\n"
    ):
        gpt.states([[6]] * batch, cache)
    check_continues(gpt, cache, ids, 2)


@mg.no_grad()
def test_a_cached_memory_of_another_batch_size_is_rejected():
    model = translator()
    cache = Cache(2)
    memory = model.encode(PADDED[:2])
    model.decode([[2]], memory[:1], cache=cache)
    with pytest.raises(UserError, match=r"batch 1, .*batch 2"):
        model.decode([[4], [5]], memory, cache=cache)
    with pytest.raises(UserError, match=r"batch 1, .*batch 2"):
        model.decoder.layers[0].cross_attention(memory, memory, cache=cache.layers[0].cross_attention)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ((7, 16, 8, 2, 4), "2 heads of 4.* 4 heads of 2"),
        ((7, 16, 16, 2, 2), "2 heads of 4.* 2 heads of 8"),
        ((7, 16, 8, 3, 2), r"a cache of 2 layers does not fit a model of 3.\nUse"),
    ],
)
@mg.no_grad()
def test_the_cache_of_a_different_model_is_rejected(gpt, config, message):
    cache = gpt.new_cache()
    gpt.states([[1]], cache)
    with pytest.raises(UserError, match=message):
        GPT(GPTConfig(*config)).states([[2]], cache)


@pytest.mark.parametrize("max_length", [0, 8])
@mg.no_grad()
def test_a_cache_of_a_different_dtype_is_rejected(gpt, max_length):
    cache = gpt.new_cache(max_length)
    gpt.states([[1]], cache)
    with pytest.raises(UserError, match=r"cache of float32 .* got float64"):
        gpt.double().states([[2]], cache)


@pytest.mark.parametrize("max_length", [0, 8])
@pytest.mark.parametrize("read", [0, 2])
@mg.no_grad()
def test_an_interrupted_call_leaves_the_cache_unchanged(gpt, max_length, read):
    def fail(*args):
        raise KeyboardInterrupt

    ids = np.array([[1, 2, 3, 4], [4, 5, 6, 0]])
    cache = gpt.new_cache(max_length)
    if read:
        gpt.states(ids[:, :read], cache)
    handle = gpt.layers.layers[1].feed_forward.register_forward_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        gpt.states([[6], [6]], cache)
    handle.remove()
    check_continues(gpt, cache, ids, read)


@pytest.mark.parametrize("use_cache", [True, False])
def test_autocast_applies_to_every_generated_token(gpt, use_cache):
    seen = []
    logits = gpt.logits
    gpt.logits = lambda states: seen.append(logits(states)) or seen[-1]
    with mg.autocast():
        generate(gpt, [[1, 2]], 5, use_cache=use_cache)
    assert [str(x.dtype) for x in seen] == ["bfloat16"] * 5


def test_float_masks_work_the_same_with_a_cache():
    attention = MultiHeadAttention(8, 2).double()
    x = mg.randn(1, 5, 8, dtype="float64")
    added = mg.randn(1, 1, 5, 5, dtype="float64")
    with mg.no_grad():
        whole = attention(x, mask=added, is_causal=True)
        cache = KeyValueCache()
        first = attention(x[:, :3], mask=added[:, :, :3, :3], is_causal=True, cache=cache)
        rest = attention(x[:, 3:], mask=added[:, :, 3:], is_causal=True, cache=cache)
    np.testing.assert_allclose(np.concatenate([first.numpy(), rest.numpy()], 1), whole.numpy(), atol=1e-12)
