"""Generation: it is the model's own argmax, it ends, and it disturbs nothing."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer import GPT, GPTConfig, Transformer, TransformerConfig, generate
from minitransformer.errors import UserError
from minitransformer.models import BERT, BERTConfig

END = 3


@pytest.fixture
def translator():
    mg.manual_seed(5)
    model = Transformer(TransformerConfig(9, 8, 2, 12, 1, 1, dropout=0.1))
    for p in model.parameters():
        p.array *= 3  # far from uniform, so that sentences differ and some end
    return model


@pytest.fixture
def gpt():
    return GPT(GPTConfig(7, 4, 8, 1, 2))


def alone(model, source, limit):
    """Greedy decoding of one sentence, by the definition."""
    model.eval()
    target = [model.config.bos_token_id]
    while len(target) <= limit:
        best = int(model(np.array([source]), np.array([target])).numpy()[0, -1].argmax())
        if best == END:
            break
        target.append(best)
    return target[1:]


def test_batched_generation_matches_single_sentences(translator):
    sources = [[4, 5, 6, END], [7, END], [8, 8, 4, 5, 6, 7, END], [5, END], [6, 4, END]]
    together = generate(translator, sources, max_new_tokens=6)
    assert together == [alone(translator, s, 6) for s in sources]
    assert len({tuple(t) for t in together}) > 1


def test_generate_restores_mode_and_random_state(translator):
    translator.train()
    mg.random.set_step(1)
    before = translator(np.array([[4]]), np.array([[2]])).numpy()
    generate(translator, [[4, END]], max_new_tokens=3)
    mg.random.set_step(1)
    assert translator.training
    np.testing.assert_array_equal(translator(np.array([[4]]), np.array([[2]])).numpy(), before)


def test_gpt_generates_beyond_its_positions(gpt):
    gpt.eval()
    (new,) = generate(gpt, [[1, 2]], max_new_tokens=9)
    assert len(new) == 9
    ids = [1, 2, *new]
    for i in range(2, len(ids)):
        assert ids[i] == int(gpt(np.array([ids[max(0, i - 4) : i]])).numpy()[0, -1].argmax())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("input_ids", "message"),
    [
        ([1, 2], "input_ids[0] is not a sequence of integers, got 1"),
        ([[1.5]], "input_ids[0] is not a sequence of integers, got [1.5]"),
        ([[1], [True]], "input_ids[1] is not a sequence of integers"),
        ([[1, [2]]], "input_ids[0] is not a sequence of integers"),
        ("hello", "input_ids must be lists of ids, got 'hello'"),
        (None, "input_ids must be lists of ids, got None"),
        (np.array([[0.5]]), "input_ids[0] is not a sequence of integers"),
        ([[1], []], "input_ids[1] is empty.\nGive each text at least one token."),
    ],
)  # fmt: skip
def test_invalid_input_ids_are_named(gpt, translator, input_ids, message):
    for model in (gpt, translator):
        with pytest.raises(UserError, match=re.escape(message)) as caught:
            generate(model, input_ids)
        assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize("wrong", [-1, 9])
def test_out_of_range_input_ids_are_named(gpt, translator, wrong):
    for model in (gpt, translator):
        last = model.config.vocab_size - 1
        with pytest.raises(UserError, match=rf"\[1\] has the id {wrong}; this .* range from 0 to {last}\.\n"):
            generate(model, [[4], [wrong]])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", [-1, 9, 3.0, [3, "x"]])
def test_end_tokens_outside_the_vocabulary_are_rejected(gpt, translator, wrong):
    for model in (gpt, translator):
        with pytest.raises(UserError, match=r"eos_token_id = .* is out of range.\nChoose an integer"):
            generate(model, [[1]], 3, eos_token_id=wrong)


@pytest.mark.parametrize("temperature", [1e-310, 1e-38, 1e-9])
def test_sampling_near_temperature_0_is_greedy(translator, temperature):
    greedy = generate(translator, [[4, END], [5, END]], 5)
    assert generate(translator, [[4, END], [5, END]], 5, do_sample=True, temperature=temperature) == greedy


def test_huge_max_new_tokens_need_no_memory_upfront(gpt):
    (text,) = generate(gpt, [[1, 2]], 9)
    assert generate(gpt, [[1, 2]], 10**14, eos_token_id=text[0]) == [[]]


@pytest.mark.usefixtures("unchecked")
def test_generate_rejects_models_without_a_decoder():
    with pytest.raises(UserError, match=r"a Linear does not generate text: it lacks .*logits.*\nPass a GPT"):
        generate(nn.Linear(2, 2), [[1]])
    bert = BERT(BERTConfig(9, 4, 1, 1, 4))
    with pytest.raises(
        UserError, match=r"a BERT does not .* an encoder without a decoder.\nCall it.* pass a GPT"
    ):
        generate(bert, [[1]])


def test_prefixes_and_end_tokens_use_the_target_vocabulary():
    larger = Transformer(TransformerConfig(9, 8, 2, 12, 1, 1, target_vocab_size=20))
    assert len(generate(larger, [[4, END]], 2, eos_token_id=19, prefix=[15])) == 1
    smaller = Transformer(TransformerConfig(20, 8, 2, 12, 1, 1, target_vocab_size=9))
    with pytest.raises(UserError, match=r"prefix has the id 15; this model's ids range from 0 to 8"):
        generate(smaller, [[15, END]], 2, prefix=[15])
    with pytest.raises(UserError, match=r"eos_token_id = 19 is out of range"):
        generate(smaller, [[15, END]], 2, eos_token_id=19)


def test_top_k_above_the_vocabulary_size_keeps_all_tokens(gpt):
    def sample(top_k):
        mg.manual_seed(1)
        return generate(gpt, [[1]] * 20, 3, do_sample=True, top_k=top_k)

    assert sample(100) == sample(7) == sample(None)


@pytest.mark.usefixtures("unchecked")
def test_prompts_can_be_arrays_and_tensors(gpt, translator):
    for model in (gpt, translator):
        expected = generate(model, [[4, 5], [6, 3]], 3)
        for ids in (np.array([[4, 5], [6, 3]]), mg.tensor([[4, 5], [6, 3]]), ((4, 5), (6, 3))):
            assert generate(model, ids, np.int64(3)) == expected
