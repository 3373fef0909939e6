"""Training and use read a text as the same tokens, in each task and with each tokenizer."""

from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.data.conversations import history
from minitransformer.data.generated import insert_spaces
from minitransformer.data.labels import LabelledText, Question, TaggedSentence
from minitransformer.tasks import (
    Classification,
    Denoising,
    LanguageModelling,
    MaskedLanguageModelling,
    QuestionAnswering,
    Similarity,
    Tagging,
    TextToText,
    Translation,
)
from minitransformer.tasks.inputs import marked_ids, warn_of_unknown
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS

TEXTS = [
    "Tom's well-known friend, 3.14 (U.S.) cats.",
    "Où est l'ami ? Non !",
    'He can\'t see 1984-1990... "ok"?',
    "The café is cafe\u0301.",
]
SPACED = [*TEXTS, "two  spaces", "日本語"]
ADDED = (*BERT_TOKENS, *Denoising.marks)
TOKENIZERS = {
    "word": Tokenizer.train_word(["The cat sat.", "A dog's hat?", "3 friends"], added=ADDED),
    "spaced word": Tokenizer.train_word(SPACED, added=ADDED),
    "wordpiece": Tokenizer.train_wordpiece(TEXTS, 130, added=ADDED),
    "bpe": Tokenizer.train_bpe([text.replace("e\u0301", "") for text in TEXTS], 130, added=ADDED),
    "byte bpe": Tokenizer.train_bpe(SPACED, 500, added=ADDED),
    "char": Tokenizer.train_char(SPACED, added=ADDED),
}
tokenizers = pytest.mark.parametrize("kind", TOKENIZERS)


def a_run(kind, tokenizer, model_type="bert", **data):
    model = SimpleNamespace(model_type=model_type, is_encoder_decoder=model_type == "t5", max_length=None)
    return SimpleNamespace(
        task=kind,
        folder="run",
        tokenizer=tokenizer,
        labels=["a", "b"],
        model=model,
        recipe=SimpleNamespace(data=kind.Data(max_length=300, **data)),
    )


def explained(run, text):
    """The ids that the walk-through of a run begins with."""
    from minitransformer.explain.runs import inputs_of, source_ids

    inputs = inputs_of(run)
    return source_ids(run, run.task.as_read(run, text), inputs, None)


def test_fixture_tokenizers_cover_all_layouts():
    assert {name: tokenizer.layout for name, tokenizer in TOKENIZERS.items()} == {
        name: name for name in TOKENIZERS
    }


# a task, examples, and the texts of each as a user writes them
SENTENCES = [TaggedSentence(tuple(text.split()), ("a",) * len(text.split())) for text in TEXTS]
QUESTIONS = [Question(question, context, "cats") for question in TEXTS for context in TEXTS]
EXAMPLES = [
    (Classification, [LabelledText(text, "a") for text in TEXTS], lambda e: [e.text]),
    (Tagging, SENTENCES, lambda e: [" ".join(e.words)]),
    (Tagging, SENTENCES, lambda e: [list(e.words)]),
    (QuestionAnswering, QUESTIONS, lambda e: [e.question, e.context]),
]


@tokenizers
@pytest.mark.parametrize(("task", "examples", "texts_of"), EXAMPLES)
def test_user_texts_are_encoded_like_training_rows(kind, task, examples, texts_of):
    run = a_run(task, TOKENIZERS[kind])
    run.reading = task.reading({"train": examples})
    training = task.of_run(run, examples)
    for example in examples:
        texts = texts_of(example)
        row = training.encode(example)
        padded = [f" {text}\n" if isinstance(text, str) else text for text in texts]
        assert training.encode(task.read(run, padded))["input"] == row["input"]
        if len(texts) == 1 and isinstance(texts[0], str):
            assert explained(run, texts[0]) == row["input"]


@tokenizers
def test_brackets_are_separated_by_spaces(kind):
    texts = ["([]())", "([)]"]
    examples = [LabelledText(insert_spaces(text), "a") for text in texts]
    layout = {"word": Tokenizer.train_word, "char": Tokenizer.train_char}.get(kind)
    tokenizer = layout([e.text for e in examples], added=ADDED) if layout else TOKENIZERS[kind]
    run = a_run(Classification, tokenizer, dataset="brackets")
    training = Classification.of_run(run, examples)
    for text, example in zip(texts, examples, strict=True):
        row = training.encode(example)
        assert training.encode(Classification.read(run, [text]))["input"] == row["input"]
        assert explained(run, text) == row["input"]


@tokenizers
def test_vectors_encode_texts_like_training_rows(kind):
    run = a_run(Similarity, TOKENIZERS[kind])
    read = []

    def model(ids):
        read.append(ids)
        return SimpleNamespace(numpy=lambda: np.zeros((len(ids), 2)))

    run.model = model
    batch = Similarity.of_run(run, []).collate([(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3])], 0)
    Similarity.vectors(run, [f" {TEXTS[i]}\n" for i in (0, 2, 1, 3)])
    np.testing.assert_array_equal(read[0], batch["input"])


@tokenizers
@pytest.mark.parametrize("task", [Translation, TextToText])
def test_sources_are_encoded_like_training_sources(kind, task):
    tokenizer = TOKENIZERS[kind]
    dialogue = history([("Hello.", "Hi, I'm Tom."), ("Who's there?", "")])
    for text in (*TEXTS, "translate English to French: He's here.", dialogue):
        run = a_run(task, tokenizer, "t5")
        trained = task.__new__(task)
        trained.tokenizer = tokenizer
        ((source, _),) = trained.ids([(text, text)])
        assert tokenizer.encode(task.read(run, [f" {text}\n"])[0]) == source
        assert explained(run, f" {text}\n") == [*source, tokenizer.end_id]


@tokenizers
def test_prompts_are_encoded_as_the_start_of_a_text(kind):
    tokenizer = TOKENIZERS[kind]
    for text in TEXTS:
        tokens = tokenizer.encode_with_offsets(text)
        model = SimpleNamespace(max_length=None)
        run = SimpleNamespace(tokenizer=tokenizer, model=model, task=LanguageModelling)
        for n, (_, (_, end)) in enumerate(tokens, 1):
            if n == len(tokens) or (tokens[n][1][0] >= end and text[end].isspace()):
                assert LanguageModelling.prompt_ids(run, text[:end]) == [i for i, _ in tokens[:n]]
    assert LanguageModelling.marks == ()


@tokenizers
@pytest.mark.parametrize("mark", ["[MASK]", "<MASK>", "<extra_id_3>"])
def test_texts_with_gaps_are_encoded_as_in_training(kind, mark):
    tokenizer = TOKENIZERS[kind]
    count = 0
    for text in (*TEXTS, *SPACED):
        tokens = tokenizer.encode_with_offsets(text)
        ids = [i for i, _ in tokens]
        for k, (token, (start, end)) in enumerate(tokens):
            others = [tokenizer.id_to_token[i] for i in ids[k - 1 : k] + ids[k : k + 2]]
            if tokenizer.id_to_token[token] in "▁Ġ " or any(o in "▁Ġ " or o.startswith("##") for o in others):
                continue  # a space of its own, which the gap takes too, or the middle of a word
            if text[start:end].isspace() or "\u0301" in text[start : end + 1]:
                continue
            given = text[:start] + mark + text[end:]
            expected = [*ids[:k], tokenizer.special_id(mark), *ids[k + 1 :]]
            assert marked_ids(tokenizer, given, ADDED) == expected, given
            count += 1
    assert count > 40


@tokenizers
def test_all_verbs_encode_gaps_the_same_way(kind):
    tokenizer = TOKENIZERS[kind]
    text = " The [MASK]'s [MASK]-old cat?\n"
    run = a_run(MaskedLanguageModelling, tokenizer)
    row = MaskedLanguageModelling.of_run(run, []).encode(MaskedLanguageModelling.read_input(run, [text]))
    assert row["input"] == explained(run, text)
    assert row["input"][1:-1] == marked_ids(tokenizer, text.strip(), ["[MASK]"])
    run = a_run(Denoising, tokenizer, "t5")
    text = " The <extra_id_0>'s <extra_id_1>.\n"
    ids = marked_ids(tokenizer, Denoising.read_input(run, [text]), Denoising.marks)
    assert [*ids, tokenizer.end_id] == explained(run, text)


def test_a_suffix_after_a_mask_is_not_reported_as_unknown(capsys):
    run = a_run(MaskedLanguageModelling, TOKENIZERS["spaced word"])
    warn_of_unknown(run, ["The [MASK]'s zebra, [MASK]."])
    assert capsys.readouterr().err == "warning: not in the vocabulary, read as <UNK>: zebra\n"


def test_rejected_characters_do_not_trigger_a_warning(capsys):
    run = SimpleNamespace(task=LanguageModelling, tokenizer=Tokenizer.train_char(["abc"]))
    warn_of_unknown(run, ["z"])
    assert not capsys.readouterr().err
