"""What holds for every model that continues or translates texts, with every option: cached decoding is
uncached decoding, no token sees a later one, padding changes nothing. A new family is one line of a table."""

import re
from itertools import pairwise

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer.errors import UserError
from minitransformer.layers import ACTIVATIONS, GATED, NORMS, Decoder, Encoder, LayerConfig
from minitransformer.layers.attention import MultiHeadAttention
from minitransformer.layers.encoder_decoder import Residual
from minitransformer.layers.masks import causal_mask
from minitransformer.layers.positions import SCHEMES, SinusoidalPositions
from minitransformer.models import (
    BART,
    BERT,
    GPT,
    T5,
    BARTConfig,
    BERTConfig,
    DecoderOnly,
    EncoderDecoder,
    GPTConfig,
    Llama,
    LlamaConfig,
    RecurrentConfig,
    RecurrentLM,
    Seq2Seq,
    Seq2SeqConfig,
    T5Config,
    Transformer,
    TransformerConfig,
    ViT,
    ViTConfig,
    model_class,
    register_model,
)  # fmt: skip
from minitransformer.models.presets import preset
from minitransformer.models.protocol import MODELS

V = 11


def gpt(**options):
    return lambda: GPT(GPTConfig(V, 12, 8, 2, 4, initializer_range=0.5, **options))


def llama(**options):
    return lambda: Llama(LlamaConfig(V, 8, 12, 2, 4, initializer_range=0.5, **options))


def transformer(**options):
    return lambda: Transformer(TransformerConfig(V, 8, 4, 12, 2, 2, max_positions=12, **options))


OPTIONS = {
    **{f"positions {scheme}": {"positions": scheme} for scheme in SCHEMES},
    "concatenated sinusoids": {"positions": "sinusoidal", "concatenate_positions": True},
    "concatenated learned": {"positions": "learned", "concatenate_positions": True},
    "RMSNorm": {"norm": "rms_norm"},
    "no biases": {"bias": False},
    "wide heads": {"head_dim": 6, "positions": "rotary"},
    "output bias": {"output_bias": True},
}
GPT_OPTIONS = {
    "post-norm": {"norm_first": False},
    "untied": {"tie_word_embeddings": False},
    "grouped queries": {"n_kv_head": 2, "positions": "rotary"},
    "one key head": {"n_kv_head": 1, "positions": "alibi"},
    **{name: {"activation_function": name} for name in [*ACTIVATIONS, *GATED]},
}
TRANSFORMER_OPTIONS = {
    "pre-norm": {"norm_first": True},
    "untied": {"tie_embeddings": False, "output_bias": True},
    "grouped queries": {"num_kv_heads": 2, "positions": "t5"},
    "two vocabularies": {"target_vocab_size": V},
    "swiglu": {"activation": "swiglu"},
}
DECODERS = {
    **{f"GPT, {name}": gpt(**options) for name, options in (OPTIONS | GPT_OPTIONS).items()},
    "Llama": llama(),
    "Llama, grouped queries, tied": llama(num_key_value_heads=2, tie_word_embeddings=True),
    "LSTM": lambda: RecurrentLM(RecurrentConfig(V, 8, 8)),
    "simple RNN": lambda: RecurrentLM(RecurrentConfig(V, 8, 8, rnn_type="rnn")),
    "GRU, untied": lambda: RecurrentLM(RecurrentConfig(V, 8, 6, 1, "gru", tie_word_embeddings=False)),
}
TRANSLATORS = {
    **{f"Transformer, {n}": transformer(**options) for n, options in (OPTIONS | TRANSFORMER_OPTIONS).items()},
    "T5": lambda: T5(T5Config(V, 8, 3, 12, 2, num_heads=2)),
    "T5, gated": lambda: T5(T5Config(V, 8, 3, 12, 2, num_heads=2, feed_forward_proj="gated-gelu")),
    "BART": lambda: BART(BARTConfig(V, 12, 2, 12, 2, 2, 12, 2, d_model=8, pad_token_id=0, bos_token_id=1)),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(V, 6, 8)),
    "seq2seq, fixed context": lambda: Seq2Seq(Seq2SeqConfig(V, 6, 8, 2, "lstm", attention="none")),
    "seq2seq, dot": lambda: Seq2Seq(Seq2SeqConfig(V, 6, 8, attention="dot", bidirectional=False)),
    "seq2seq, untied": lambda: Seq2Seq(Seq2SeqConfig(V, 6, 8, 2, "rnn", tie_word_embeddings=False)),
}

IDS = np.array([[3, 4, 9, 5, 7, 8], [6, 6, 10, 4, 3, 5]])
SOURCE = np.array([[4, 5, 6, 3, 0], [7, 8, 3, 0, 0]])


def built(make):
    mg.manual_seed(3)
    return make().eval()


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


decoders = pytest.mark.parametrize("make", DECODERS.values(), ids=DECODERS)
translators = pytest.mark.parametrize("make", TRANSLATORS.values(), ids=TRANSLATORS)


def in_pieces(read, length):
    """The results of `read(start, stop)` for several pieces of a sequence, concatenated."""
    edges = [0, length // 2, length // 2 + 1, length]
    return np.concatenate([read(a, b).numpy() for a, b in pairwise(edges)], 1)


# ---------------------------------------------------------------- half precision

OTHERS = {
    "BERT": (lambda: BERT(BERTConfig(V, 8, 2, 2, 12, max_position_embeddings=12)), (IDS,)),
    "ViT": (
        lambda: ViT(ViTConfig(8, 1, 2, 12, image_size=4, patch_size=2, num_channels=1, num_labels=3)),
        (np.ones((2, 1, 4, 4), np.float32),),
    ),
}
RECURRENT = "LSTM", "simple RNN", "GRU", "seq2seq"
IN_HALF = {
    name: (make, inputs)
    for table, inputs in ((DECODERS, (IDS,)), (TRANSLATORS, (SOURCE, IDS)))
    for name, make in table.items()
    if not name.startswith(RECURRENT)
} | OTHERS


@pytest.mark.parametrize("name", IN_HALF)
def test_activations_stay_in_half_under_autocast(name):
    """The results of all layers, their gradients, and the logits."""
    make, inputs = IN_HALF[name]
    model = built(make)
    wide = []

    def check(x, module):
        if x.dtype != mg.bfloat16:
            wide.append(type(module).__name__)

    def note(module, inputs, output):
        check(output, module)
        output.register_hook(lambda g: check(g, module))

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm | nn.RMSNorm | MultiHeadAttention | Residual):
            module.register_forward_hook(note)
    with mg.autocast(dtype="bfloat16"):
        logits = model(*inputs)
    logits = getattr(logits, "logits", logits)
    assert logits.dtype == mg.bfloat16
    logits.sum().backward()
    assert not wide
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {mg.float32}


def test_sinusoidal_tables_grow_only_with_the_length():
    model = built(transformer())
    for _ in range(4):
        with mg.autocast(dtype="bfloat16"):
            model(SOURCE, IDS)
        model(SOURCE, IDS)
        model.double()(SOURCE, IDS)
        model.float()
    assert {len(m.table) for m in model.modules() if isinstance(m, SinusoidalPositions)} == {64}


# ---------------------------------------------------------------- models that continue a text


@decoders
@mg.no_grad()
def test_padded_decoder_batches_match_single_rows(make):
    """The rows' real tokens are the same in a batch, padded on the left, and in pieces with a cache."""
    model = built(make)
    assert isinstance(model, DecoderOnly)
    real = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])  # integers, as Hugging Face's attention_mask
    ids = np.where(real, IDS, 0)
    cache = model.new_cache()
    whole = model(ids, mg.tensor(real == 1)).numpy()
    pieces = in_pieces(
        lambda a, b: model.logits(model.states(ids[:, a:b], cache, mg.tensor(real[:, :b] == 1))), 6
    )
    for row, start in enumerate((0, 2)):
        alone = model(ids[row : row + 1, start:]).numpy()[0]
        assert_close(whole[row, start:], alone)
        assert_close(pieces[row, start:], alone)
    assert cache.length == 6


@decoders
@mg.no_grad()
def test_a_token_does_not_change_earlier_logits(make):
    model = built(make)
    changed = IDS.copy()
    changed[:, 4] = 1
    before = model(IDS).numpy()
    after = model(changed).numpy()
    np.testing.assert_allclose(before[:, :4], after[:, :4], rtol=0, atol=1e-6)
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 1e-3


# ---------------------------------------------------------------- models that translate


@translators
@mg.no_grad()
def test_cached_decoding_matches_uncached_decoding(make):
    model = built(make)
    assert isinstance(model, EncoderDecoder)
    mask = model.padding_mask(SOURCE)
    memory = model.encode(SOURCE, mask)
    cache = model.new_cache()
    read = lambda a, b: model.logits(model.decode(IDS[:, a:b], memory, mask, cache=cache))
    assert_close(in_pieces(read, 6), model(SOURCE, IDS).numpy())


@translators
@mg.no_grad()
def test_logits_ignore_padding_and_later_tokens(make):
    model = built(make)
    changed = IDS.copy()
    changed[:, 4] = 1
    whole = model(SOURCE, IDS).numpy()
    for row, length in enumerate((4, 3)):
        pad = model.config.pad_token_id
        alone = model(SOURCE[row : row + 1, :length], IDS[row : row + 1]).numpy()[0]
        assert_close(model(np.where(SOURCE == 0, pad, SOURCE), IDS).numpy()[row], alone)
    np.testing.assert_allclose(whole[:, :4], model(SOURCE, changed).numpy()[:, :4], rtol=0, atol=1e-6)


@translators
def test_all_padding_sources_are_handled_without_nan(make):
    model = built(make)
    empty = np.full((2, 5), model.config.pad_token_id)
    logits = model(np.stack([empty[0], SOURCE[1]]), IDS)
    assert_close(logits[1:].numpy(), model(SOURCE[1:], IDS[1:]).numpy())
    assert_close(logits[:1].numpy(), model(empty[:1, :1], IDS[:1]).numpy())
    model(empty, IDS).sum().backward()
    assert all(np.isfinite(p.grad.numpy()).all() for p in model.parameters() if p.grad is not None)
    with pytest.raises(UserError, match="a row of the padding mask has no real token"):
        model(empty, IDS, np.zeros((2, 5), bool))


@translators
@mg.no_grad()
def test_left_padding_of_targets_does_not_change_logits(make):
    model = built(make)
    real = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]) == 1
    found = model(SOURCE, np.where(real, IDS, 0), target_mask=mg.tensor(real)).numpy()
    assert_close(found[1, 2:], model(SOURCE[1:], IDS[1:, 2:]).numpy()[0])


@translators
@mg.no_grad()
def test_two_dimensional_source_masks_are_padding_masks(make):
    """Also where there are as many sources as tokens in each, so that the shape fits queries and keys too."""
    model = built(make)
    rows = [0, 1, 1, 0, 1]
    source = SOURCE[rows]
    target = IDS[rows]
    real = mg.tensor(np.arange(5) < np.array([[3], [2], [1], [4], [2]]))  # (5, 5)
    scores = real[:, None, None, :]
    expected = model(source, target, scores).numpy()
    assert_close(model(source, target, real).numpy(), expected)
    states = model.decode(target, model.encode(source, real), real, cache=model.new_cache())
    assert_close(model.logits(states).numpy(), expected)
    with pytest.raises(ValueError, match="a padding mask of"):
        model(source, target, real[:, :4])


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "make",
    [gpt(is_causal=False), gpt(is_causal=False, positions="t5"), transformer(is_causal=False)],
)
@mg.no_grad()
def test_non_causal_models_attend_to_later_tokens(make):
    model = built(make)
    changed = IDS.copy()
    changed[:, 5] = 1
    source = [SOURCE] if model.is_encoder_decoder else []
    assert np.abs((model(*source, IDS) - model(*source, changed)).numpy()[:, 0]).max() > 1e-4


@pytest.mark.parametrize("norm", NORMS)
@mg.no_grad()
def test_without_positions_an_encoder_is_permutation_equivariant(norm):
    mg.manual_seed(0)
    encoder = Encoder(2, LayerConfig(8, 4, 12, norm=norm, num_kv_heads=2, activation="swiglu"))
    x = mg.randn(2, 5, 8)
    order = np.array([3, 0, 4, 1, 2])
    assert_close(encoder(x[:, order]).numpy(), encoder(x).numpy()[:, order])


@pytest.mark.parametrize("scheme", ["rotary", "alibi", "t5"])
@mg.no_grad()
def test_attention_position_schemes_are_relative(scheme):
    mg.manual_seed(0)
    encoder = Encoder(1, LayerConfig(8, 2, 12, positions=scheme), is_causal=True)
    if encoder.positions is not None:
        for p in encoder.positions.parameters():
            p.array *= 50
    x = mg.randn(1, 5, 8)
    real = np.array([[0, 0, 1, 1, 1]]) == 1
    shifted = encoder(x, mg.tensor(real[:, None, None]))[:, 2:]  # the same tokens, two positions later
    assert_close(shifted.numpy(), encoder(x[:, 2:]).numpy())
    assert np.abs((encoder(x[:, [1, 0, 2]]) - encoder(x[:, :3])).numpy()[:, 2]).max() > 1e-4


def test_grouped_query_attention_repeats_keys_and_values():
    """A head of keys and values for two of queries is that head twice (Ainslie et al. 2023)."""
    mg.manual_seed(0)
    grouped = MultiHeadAttention(8, 4, num_kv_heads=2)
    full = MultiHeadAttention(8, 4)
    w = grouped.in_proj_weight.array
    q = w[:8]
    k = w[8:12].reshape(2, 2, 8)
    v = w[12:].reshape(2, 2, 8)
    repeat = lambda heads: np.repeat(heads, 2, 0).reshape(8, 8)
    full.in_proj_weight.array[:] = np.concatenate([q, repeat(k), repeat(v)])
    full.out_proj.load_state_dict(grouped.out_proj.state_dict())
    x = mg.randn(2, 3, 8)
    assert_close(grouped(x, is_causal=True).numpy(), full(x, is_causal=True).numpy())
    assert_close(*(a.weights(*a.project(x), None, False).numpy() for a in (grouped, full)))


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GPT(GPTConfig(0, 12, 8, 2, 4)), "vocab_size = 0 is out of range"),
        (
            lambda: BERT(BERTConfig(V, 8, 1, 2, 8, head="classification", num_labels=0)),
            '"classification" needs at least one label, got num_labels = 0',
        ),
        (
            lambda: BERT(BERTConfig(V, 8, 1, 2, 8, head="token_classification", num_labels=0)),
            "num_labels = 0",
        ),
        (lambda: ViT(ViTConfig(8, 1, 2, 8, num_labels=0)), "num_labels = 0"),
        (gpt(n_embed=8), "GPTConfig has no field 'n_embed'. Did you mean n_embd"),
        (lambda: T5Config(V, d_modle=8), "T5Config has no field 'd_modle'. Did you mean d_model"),
        (gpt(positions="rotery"), "unknown positions 'rotery'. Did you mean rotary?"),
        (gpt(norm="rmsnorm"), "unknown norm 'rmsnorm'. Did you mean rms_norm?"),
        (gpt(activation_function="swiglo"), "unknown activation 'swiglo'. Did you mean swiglu?"),
        (gpt(n_kv_head=3), "n_head=4 is not divisible by n_kv_head=3"),
        (gpt(n_kv_head=0), "n_kv_head = 0 is out of range"),
        (gpt(positions="rotary", head_dim=3), "need an even head_dim, got 3."),
        (lambda: LlamaConfig(V, 8, 12, 2, 8), "need an even head_dim, got 1 (8 / 8 heads)."),
        (gpt(positions="rotary", concatenate_positions=True), "has no vectors to concatenate"),
        (llama(num_key_value_heads=3), "num_attention_heads=4 is not divisible by num_key_value_heads=3"),
        (llama(hidden_act="sill"), "unknown hidden_act 'sill'. Did you mean silu?"),
        (gpt(bias="no"), "bias must be True or False, got 'no'.\nPass one, or leave it out: the default is"),
        (gpt(pad_token_id="a"), "pad_token_id must be an integer or None, got 'a'."),
        (gpt(embd_pdrop="x"), "embd_pdrop must be a number, got 'x'."),
        (lambda: T5Config(8.0), "vocab_size must be an integer, got 8.0."),
        (lambda: GPT(LlamaConfig(V)), "must be a GPTConfig, got a LlamaConfig.\nPass GPTConfig(...)."),
        (lambda: GPT({"n_layer": 1}), "must be a GPTConfig, got a dict.\nPass GPTConfig(**settings)."),
        (lambda: model_class("lama"), "unknown model_type 'lama'. Did you mean llama?"),
        (lambda: preset("lama-nano"), "there is no preset 'lama-nano'. Did you mean llama-nano"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_invalid_model_choices_are_rejected(make, message):
    with pytest.raises(UserError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 5), bool), "padding mask of shape (2, 5) for 2 rows of 6 tokens"),
        (np.ones((2, 6)), "padding mask of dtype float64"),
        (IDS == 6, "a row of the padding mask has no real token"),  # True for padding, by mistake
    ],
)
def test_padding_masks_of_a_wrong_shape_are_rejected(mask, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        built(gpt())(IDS, mg.tensor(mask))


@decoders
def test_decoders_accept_list_masks_and_reject_empty_ids(make):
    model = built(make)
    mask = [[1] * 6, [0, 0, 1, 1, 1, 1]]
    np.testing.assert_array_equal(model(IDS, mask).numpy(), model(IDS, np.array(mask, bool)).numpy())
    for ids in (IDS[:, :0], [[], []]):
        with pytest.raises(UserError, match=re.escape("ids of shape (2, 0) have no tokens")):
            model(ids)


@translators
def test_translators_accept_list_masks_and_reject_empty_ids(make):
    model = built(make)
    expected = model(SOURCE, IDS, SOURCE != 0, np.ones((2, 6), bool)).numpy()
    mask = (SOURCE != 0).astype(int).tolist()
    np.testing.assert_array_equal(model(SOURCE, IDS, mask, [[True] * 6] * 2).numpy(), expected)
    for source, target in ((SOURCE[:, :0], IDS), (SOURCE, IDS[:, :0]), ([[], []], IDS)):
        with pytest.raises(UserError, match=re.escape("ids of shape (2, 0) have no tokens")):
            model(source, target)


@translators
@pytest.mark.parametrize("shape", [(2, 1, 1, 4), (3, 1, 1, 5)])
def test_a_score_mask_of_a_wrong_shape_is_refused(make, shape):
    with pytest.raises(
        ValueError, match=r"a (padding )?mask of shape \([23], (1, 1, )?[45]\) for "
    ) as caught:
        built(make)(SOURCE, IDS, np.ones(shape, bool))
    assert str(caught.value).count("\n") == 1


def test_integer_padding_masks_work_and_inverted_masks_fail():
    model = built(gpt())
    ones = np.ones((2, 6), np.int64)
    assert_close(model(IDS, ones).numpy(), model(IDS).numpy())
    attention = MultiHeadAttention(8, 2)
    x = mg.randn(1, 4, 8)
    attention(x, mask=causal_mask(4))
    with pytest.raises(UserError, match="an inverted causal mask"):
        attention(x, mask=~causal_mask(4))


@pytest.mark.parametrize("mask", [IDS, np.where(IDS < 5, 0, -1)], ids=["ids", "additive"])
def test_padding_masks_must_be_0_or_1(mask):
    with pytest.raises(UserError, match=r"must be 1 for real tokens and 0 for padding, got .*\n.*mask == 0"):
        built(gpt())(IDS, mask)


def test_only_learned_positions_limit_the_length():
    ids = np.ones((1, 13), int)
    with pytest.raises(UserError, match="a sequence of 13 tokens is longer than the 12 positions"):
        built(gpt())(ids)
    assert built(gpt(positions="rotary"))(ids).shape == (1, 13, V)


def test_model_types_can_be_registered_only_once():
    with pytest.raises(UserError, match="model_type 'gpt2' is already used by"):
        register_model(type("Mine", (GPT,), {"model_type": "gpt2"}))
    with pytest.raises(UserError, match="Decoder has no model_type of its own"):
        register_model(Decoder)
    with pytest.raises(UserError, match="Mine has no config_class that is a dataclass"):
        register_model(type("Mine", (Decoder,), {"model_type": "mine", "config_class": 5}))
    assert "mine" not in MODELS


@pytest.mark.usefixtures("unchecked")
def test_register_model_rejects_instances():
    with pytest.raises(UserError, match="takes a class, got an instance of GPT"):
        register_model(built(gpt()))
