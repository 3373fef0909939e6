"""Decoding that is recorded writes the same texts, with the same scores, as decoding that is not."""

import contextlib
import gc
import weakref
from importlib.util import find_spec

import numpy as np
import pytest

import minigrad as mg
from minigrad.capture.growing import Growing
from minitransformer import GPT, GPTConfig, Transformer, TransformerConfig, generate, record_attention, stream
from minitransformer.generation import decoder
from minitransformer.models.bart import BART, BARTConfig
from minitransformer.models.llama import Llama, LlamaConfig
from minitransformer.models.recurrent import RecurrentConfig, RecurrentLM
from minitransformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from minitransformer.models.t5 import T5, T5Config

V = 17
INPUTS = [[4, 5, 6, 7], [8, 9]]  # of different lengths: the second is padded
SIZES = {"vocab_size": V, "d_model": 16, "num_heads": 2, "d_ff": 32}
NUMBER_OF_TOKENS = 40

pytestmark = pytest.mark.skipif(not find_spec("numba"), reason="numba is not installed")


def gpt(positions="learned", **settings):
    return GPT(GPTConfig(V, 64, 16, 2, 2, positions=positions, **settings))


def transformer():
    return Transformer(TransformerConfig(**SIZES, num_encoder_layers=1, num_decoder_layers=2))


MODELS = {
    **{
        positions: lambda p=positions: gpt(p)
        for positions in ("learned", "sinusoidal", "rotary", "alibi", "t5")
    },
    "llama": lambda: Llama(LlamaConfig(V, 16, 32, 2, 2, num_key_value_heads=1)),
    "transformer": transformer,
    "bart": lambda: BART(BARTConfig(V, 64, 1, 32, 2, 2, 32, 2, d_model=16)),
    "t5": lambda: T5(T5Config(V, 16, 8, 32, 1, num_heads=2)),
    "lstm": lambda: RecurrentLM(RecurrentConfig(V, 16, 16)),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(V, 16, 16)),
}


@pytest.fixture
def steps(monkeypatch):
    """The recorded steps of each generation, which begin early."""
    found = []
    make = decoder.Decoder._recorder

    def recorder(self, steady):
        found.append(make(self, steady))
        return found[-1]

    monkeypatch.setattr(decoder, "STEADY", 3)
    monkeypatch.setattr(decoder, "MAY_END", 3)
    monkeypatch.setattr(decoder, "WORTH_RECORDING", 20)
    monkeypatch.setattr(decoder.Decoder, "_recorder", recorder)
    with mg.kernels.use("jit"):  # those of NumPy are not recorded
        yield found


def varied(model):
    """With larger weights, whose texts change from token to token."""
    for p in model.parameters():
        if p.ndim == 2:
            p.array *= 4
    return model


def assert_same_without(model, monkeypatch, inputs=INPUTS, n=NUMBER_OF_TOKENS, **options):
    """The same ids and scores, bit for bit, as from steps that run as they are."""
    options = {"eos_token_id": [], "return_dict": True, **options}
    found = generate(model, inputs, n, **options)
    monkeypatch.setattr(decoder, "WORTH_RECORDING", 10**9)
    expected = generate(model, inputs, n, **options)
    assert (found.ids, found.scores) == (expected.ids, expected.scores)


@pytest.mark.parametrize("name", MODELS)
def test_every_family_replays_its_steps(name, steps, monkeypatch):
    assert_same_without(varied(MODELS[name]()), monkeypatch)
    assert steps[0].plan.is_checked, steps[0].refused


@pytest.mark.parametrize(
    "options",
    [{"num_beams": 3}, {"do_sample": True, "seed": 0, "num_return_sequences": 2}, {"eos_token_id": [3, 4]}],
    ids=["beams", "samples", "texts that end"],
)
@pytest.mark.parametrize("make", [gpt, transformer], ids=["gpt", "transformer"])
def test_every_search_replays_its_steps(make, options, steps, monkeypatch):
    assert_same_without(varied(make()), monkeypatch, **options)


def test_beyond_the_first_capacity_and_the_window(steps, monkeypatch):
    monkeypatch.setattr(decoder, "CAPACITY", 16)
    assert_same_without(varied(gpt("rotary")), monkeypatch, n=150)
    assert steps[0].plan.is_checked  # of the last memory
    monkeypatch.setattr(decoder, "WORTH_RECORDING", 20)
    assert_same_without(varied(gpt()), monkeypatch, n=80)  # 64 positions


def test_under_autocast_and_without_fused_kernels(steps, monkeypatch):
    for mode in (mg.autocast("cpu", "bfloat16"), mg.fused(False)):
        with mode:
            monkeypatch.setattr(decoder, "WORTH_RECORDING", 20)
            assert_same_without(varied(gpt()), monkeypatch)


def test_what_looks_inside_sees_every_step(steps):
    model = gpt()
    with record_attention(model) as maps:
        generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[])
    assert [x.shape[-1] for x in maps["layers.layers.0.self_attention"]] == list(
        range(2, NUMBER_OF_TOKENS + 2)
    )
    assert steps == [None]


def test_a_model_of_one_position_has_no_cache_to_record(steps):
    assert len(generate(GPT(GPTConfig(V, 1, 16, 1, 2)), [[1]], NUMBER_OF_TOKENS, eos_token_id=[])[0]) == 40


def test_hooks_and_modules_that_come_between_tokens_count(steps):
    model, calls = varied(gpt()), []
    hooked = stream(model, [[1, 2]], max_new_tokens=NUMBER_OF_TOKENS)
    for i, _ in enumerate(hooked):
        if i == 20:
            model.layers.layers[0].register_forward_hook(lambda *args: calls.append(1))
    assert len(calls) == NUMBER_OF_TOKENS - 21


def test_a_recurrent_cache_is_as_it_was_after_a_failure():
    model = RecurrentLM(RecurrentConfig(V, 16, 16)).eval()
    with mg.no_grad():
        cache = model.new_cache()
        model.states([[1, 2]], cache)
        before = [x.array.copy() for x in cache.states]
        with contextlib.suppress(RuntimeError), cache:
            model.states([[3]], cache)
            raise RuntimeError
    assert cache.length == 2
    for x, numbers in zip(cache.states, before, strict=True):
        np.testing.assert_array_equal(x.array, numbers)


def test_weights_that_change_between_tokens_count(steps):
    """`load_state_dict` writes in place, `to` makes other memory: what follows is computed with the new."""
    for change in (lambda p: p.array.__imul__(-1), lambda p: setattr(p, "array", -p.array)):
        texts = []
        for worth in (20, 10**9):
            decoder.WORTH_RECORDING = worth
            mg.manual_seed(0)
            model, tokens = varied(gpt()), []
            for i, token in enumerate(stream(model, [[1, 2]], max_new_tokens=NUMBER_OF_TOKENS)):
                tokens += token
                if i == 20:
                    change(model.layers.layers[1].feed_forward.linear1.weight)
            texts.append(tokens)
        assert texts[0] == texts[1]


# ---------------------------------------------------------------- the step itself


def test_a_step_that_cannot_be_recorded_runs_as_it_is():
    seen = []

    def step(x):
        seen.append(float(x.sum()))
        return x * 2

    growing = Growing(step, steady=2)
    with mg.no_grad():
        for n in range(12):
            assert growing(n, np.full(3, n, np.float32)).array.tolist() == [2 * n] * 3
    assert "item()" in growing.refused or "float(tensor)" in growing.refused
    assert seen == [3 * n for n in range(12)]


def test_a_step_that_does_not_grow_evenly_runs_as_it_is():
    table = mg.tensor(np.arange(400, dtype=np.float32))
    growing = Growing(lambda x: table[: int(count["n"]) ** 2].sum() + x, steady=2)
    count = {"n": 0}
    with mg.no_grad():
        for n in range(16):
            count["n"] = n
            assert growing(n, np.zeros(1, np.float32)).item() == sum(range(n * n))
    assert growing.plan is None or not growing.plan.is_checked


def test_numbers_that_jump_and_other_shapes_begin_anew():
    table, count = mg.tensor(np.arange(40, dtype=np.float32)), {"n": 0}
    growing = Growing(lambda x: table[: count["n"]].sum() + x, steady=2)
    with mg.no_grad():
        for n, size in (
            [(n, 1) for n in range(8)] + [(n, 1) for n in range(20, 28)] + [(n, 2) for n in range(28, 38)]
        ):
            count["n"] = n
            assert growing(n, np.zeros(size, np.float32)).array.tolist() == [sum(range(n))] * size
    assert growing.plan.is_checked, growing.refused
    assert growing.plan.first == 30


# --- the next generation of the same model ---


def test_the_next_text_replays_the_step_of_the_last(steps, monkeypatch):
    model = varied(gpt())
    for inputs in ([[4, 5, 6]], [[7]], [[5] * 20]):  # a shorter prompt and a longer one
        assert_same_without(model, monkeypatch, inputs)
        monkeypatch.setattr(decoder, "WORTH_RECORDING", 20)
    (first, *others), plan = steps, decoder.SPARES[model].recorded.plan
    assert first.plan is plan
    assert plan.is_checked is False  # again and again
    assert [other.plan for other in others] == [None, None]


def test_a_text_that_begins_much_earlier_is_recorded_anew(steps, monkeypatch):
    model, found = varied(gpt("rotary")), []
    for prompt, n in ((60, 60), (1, 60), (15, 40)):
        assert_same_without(model, monkeypatch, [[5] * prompt], n)
        monkeypatch.setattr(decoder, "WORTH_RECORDING", 20)
        found.append(decoder.SPARES[model].recorded.plan)
    assert found[0] is not found[1]
    assert found[1] is found[2]
    assert max(plan.first for plan in found[1:]) < 10


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.embedding.weight.array.__imul__(-2),
        lambda m: setattr(m.embedding.weight, "data", mg.tensor(2 * m.embedding.weight.numpy())),
        lambda m: setattr(m.layers.norm, "eps", 0.5),
        lambda m: m.layers.layers[0].register_forward_hook(lambda module, args, output: 2 * output),
        lambda m: setattr(m.layers.layers[0], "self_attention", m.layers.layers[1].self_attention),
    ],
    ids=["weights", "other weights", "a setting", "a hook", "a module"],
)
def test_a_model_that_was_changed_in_between_is_seen(change, steps, monkeypatch):
    model = varied(gpt())
    before = generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[], return_dict=True)
    assert model in decoder.SPARES
    change(model)
    after = generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[], return_dict=True)
    assert after.scores != before.scores
    monkeypatch.setattr(decoder, "WORTH_RECORDING", 10**9)
    expected = generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[], return_dict=True)
    assert (after.ids, after.scores) == (expected.ids, expected.scores)


def test_texts_side_by_side_have_caches_of_their_own(steps):
    model = varied(gpt())
    expected = generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[])[0]
    streams = [stream(model, [[1, 2]], max_new_tokens=NUMBER_OF_TOKENS) for _ in range(3)]
    texts = [[token for (token,) in tokens] for tokens in zip(*streams, strict=True)]
    assert [[*text] for text in zip(*texts, strict=True)] == [expected] * 3


def test_what_is_left_for_the_next_text_goes_with_the_model(steps):
    model = varied(gpt())
    generate(model, [[1, 2]], NUMBER_OF_TOKENS, eos_token_id=[])
    assert model in decoder.SPARES
    found = weakref.ref(model)
    del model
    gc.collect()
    assert found() is None
