"""Tasks: what a batch holds, what is predicted, and how it is read."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from minitransformer import GPTConfig
from minitransformer.cli import main
from minitransformer.cli.wording import describe_splits
from minitransformer.data.batching import IGNORE
from minitransformer.data.labels import LabelledText, Question, TaggedSentence, answer_problem
from minitransformer.data.splits import Sources, Splits
from minitransformer.errors import UserError
from minitransformer.recipes import load_recipe, parse_recipe
from minitransformer.runs import run as runs
from minitransformer.tasks import (
    CausalTranslation,
    Classification,
    Denoising,
    ImageClassification,
    LanguageModelling,
    MaskedLanguageModelling,
    QuestionAnswering,
    Similarity,
    Tagging,
    TextToText,
    task_class,
)
from minitransformer.tasks.base import VALIDATION
from minitransformer.tasks.denoising import MASK, SENTINELS, check_gaps
from minitransformer.tasks.inputs import check_length, marked_ids
from minitransformer.tasks.question_answering import answer_span, context_tokens
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS
from minitransformer.training.config import TrainConfig
from minitransformer.training.ranks import Ranks
from minitransformer.training.trainer import Trainer

TEXTS = ["The cats were playing in the garden.", "Who was playing?", "A dog sat on the mat."]
WORDS = Tokenizer.train_word(TEXTS, added=BERT_TOKENS)
PIECES = Tokenizer.train_wordpiece(TEXTS, 45, added=BERT_TOKENS)


def run_of(task, tokenizer, model, labels=(), **settings):
    recipe = SimpleNamespace(data=task.Data(**settings), training=SimpleNamespace(seed=0))
    return SimpleNamespace(recipe=recipe, tokenizer=tokenizer, labels=labels, model=model, folder="run")


# ---------------------------------------------------------------- tagging


def test_only_the_first_piece_of_a_word_is_tagged():
    example = TaggedSentence(("The", "cats", "sat"), ("O", "B-animal", "O"))
    task = Tagging(Tagging.Data(), [example], [example], PIECES, ["B-animal", "O"])
    row = task.encode(example)
    pieces = [PIECES.id_to_token[i] for i in row["input"]]
    assert len(row["input"]) == len(row["target"]) > 5
    for piece, target in zip(pieces, row["target"], strict=True):
        assert (target == IGNORE) == (piece.startswith("##") or piece in BERT_TOKENS)
    assert [t for t in row["target"] if t != IGNORE] == [1, 0, 1]
    perfect = np.eye(2)[np.where(np.array(row["target"]) == IGNORE, 0, row["target"])]
    assert task.decode(perfect, example) == "O B-animal O"


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O B-PER I-PER", ""), ("O B I", ""), ("I-PER O", ""), ("0 1 2", "0, 1, 2"), ("O PER", "O, PER"),
        ("O B_LOC I_LOC", "B_LOC, I_LOC, O"), ("O B I E", "B, E, I, O"), ("DET NOUN", "DET, NOUN"),
        ("O", "O"),
    ],
)  # fmt: skip
def test_missing_entity_f1_is_explained_in_a_warning(tags, found):
    scores = Tagging.compute_metrics([tags], [tags])
    example = TaggedSentence(("w",) * len(tags.split()), tuple(tags.split()))
    warnings = Tagging.warnings(Tagging.Data(), WORDS, Splits({"train": [example]}))
    assert scores == ({"accuracy": 1} if found else {"accuracy": 1, "entity_f1": 1})
    assert [line.startswith("scores have no entity F1") for line in warnings] == [True] * bool(found)
    assert all(line.endswith(f"; found {found}") for line in warnings)


TAGGED = [TaggedSentence(("The", "dog"), ("O", "Y")), TaggedSentence(("A", "cats"), ("Z", "O"))]
# a task, its labels, and examples of which a model that always says the first label gets half right
HALF_RIGHT = [
    (Classification, ["a", "b"], [LabelledText("The dog", "a"), LabelledText("A dog", "c")]),
    (Tagging, ["O", "X"], TAGGED),
    (ImageClassification, ["0", "1"], [(np.zeros((1, 2, 2), np.float32), label) for label in (0, 7)]),
]


@pytest.mark.parametrize(("kind", "labels", "examples"), HALF_RIGHT, ids=lambda x: getattr(x, "name", ""))
def test_unknown_labels_count_as_wrong_without_a_loss(kind, labels, examples):
    def model(ids):
        shape = ids.shape if kind is Tagging else ids.shape[:1]
        return mg.tensor(np.broadcast_to(np.float32([2, 0]), (*shape, 2)).copy())

    tokenizer = None if kind is ImageClassification else WORDS
    run = run_of(kind, tokenizer, model, labels)
    validation = kind(kind.Data(), examples, examples, tokenizer, labels).validate(model)
    test = kind.evaluate(run, examples)[0]
    assert validation["accuracy"] == test["accuracy"] == 0.5
    assert validation["loss"] == pytest.approx(test["loss"]) == pytest.approx(np.log(1 + np.exp(-2)))


@pytest.mark.parametrize(
    ("recipe", "train", "held_out", "message"),
    [
        ("bert-classify", "good\tpos\nbad\tneg\n", "poor\tneg\nmeh\tnone\nso\tnone\n",
         "held.txt has labels that the training data does not have (2 of 3): 'none' (2).\n"
         "The training data has neg, pos."),
        ("bert-tag", "Tom\tB-PER\nsat\tO\n", "Rome\tB-LOC\nsat\tO\n\nAnn\tB-PEER\n",
         "(2 of 3): 'B-LOC' (1), 'B-PEER' (1). Did you mean B-PER?"),
        ("digits-vit", [0, 1, 3, 0], [3, 2, 9, 9], "(3 of 4): '9' (2), '2' (1)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("flag", ["--validation-data", "--test-data"])
def test_files_with_unknown_labels_are_rejected_before_training(
    recipe, train, held_out, message, flag, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, content in (("train", train), ("same", train), ("held", held_out)):
        file = tmp_path / f"{name}.{'txt' if isinstance(content, str) else 'npz'}"
        if isinstance(content, str):
            # what is held out is not trained on: other words
            file.write_text(content if name != "same" else content.replace("\t", "y\t"))
        else:
            images = np.random.default_rng(len(name)).random((len(content), 8, 8))
            np.savez(file, images=images, labels=np.array(content))
    other = "--test-data" if flag == "--validation-data" else "--validation-data"
    ending = file.suffix
    argv = ["train", recipe, "--data", f"train{ending}", flag, f"held{ending}", other, f"same{ending}"]
    assert main([*argv, "--run-dir", "run", "--steps", "1"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()


def test_unknown_labels_in_held_out_splits_are_counted(tmp_path):
    recipe = load_recipe("bert-classify")
    file = tmp_path / "rare.tsv"
    file.write_text("".join(f"text {i}\t{'ab'[i % 2]}\n" for i in range(40)))
    splits = runs.load_splits(recipe, file)
    assert runs.check_labels(recipe, splits, Sources(file)) == []
    held = [LabelledText(splits["validation"][0].text, "rare"), *splits["validation"][1:]]
    splits = Splits({**splits, "validation": held})
    assert runs.check_labels(recipe, splits, Sources(file)) == [
        "warning: the validation split has labels that the training data does not have (1 of 4): 'rare' (1); "
        "they count as wrong"
    ]


def test_a_single_training_label_is_rejected():
    with pytest.raises(UserError, match="all training texts have the label 'a'"):
        Classification.labels(Classification.Data(), {"train": [LabelledText("The dog", "a")] * 3})


def test_evaluation_labels_unknown_to_the_run_are_rejected(tmp_path):
    path = tmp_path / "l.tsv"
    path.write_text("The\ta\ndog\tc\n\nA\tc\n", encoding="utf-8")
    run = SimpleNamespace(recipe=SimpleNamespace(data=Tagging.Data()), labels=["a", "b"])
    with pytest.raises(UserError, match=r"\(2 of 3\): 'c' \(2\).*\n.*has a, b\."):
        Tagging.read_test_file(run, path)
    assert Tagging.read_file(run.recipe.data, path)  # to train on, any label will do


def test_examples_without_targets_are_an_error():
    example = LabelledText("The dog", "c")
    task = Classification(Classification.Data(), [], [example], WORDS, ["a", "b"])
    with pytest.raises(UserError, match="nothing to score"):
        task.validate(lambda ids: mg.zeros((len(ids), 2)))


def test_validation_data_without_known_labels_is_rejected():
    recipe = SimpleNamespace(data=Classification.Data(), training=TrainConfig())
    splits = {
        "train": [LabelledText("A dog", "a"), LabelledText("The dog", "b")],
        "validation": [LabelledText("A", "c")],
    }
    with pytest.raises(UserError, match="nothing in the validation data can be predicted"):
        Classification.build(recipe, WORDS, splits, ["a", "b"])
    splits["validation"].append(LabelledText("A cat", "b"))
    assert Classification.build(recipe, WORDS, splits, ["a", "b"]).validation == splits["validation"]


# ---------------------------------------------------------------- question answering


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_answers_are_located_by_their_tokens(tokenizer):
    example = Question("Who was playing?", "A dog sat. The cats were playing.", "The cats")
    task = QuestionAnswering(QuestionAnswering.Data(), [example], [example], tokenizer)
    row = task.encode(example)
    first, last = row["target"]
    assert tokenizer.decode(row["input"][first : last + 1]) == "The cats"
    assert row["token_types"] == sorted(row["token_types"])
    logits = np.zeros((2, len(row["input"])))
    logits[0, first] = logits[1, last] = 1
    assert task.decode(logits, example) == "The cats"
    logits[1, first - 2] = 5  # a last token before the first is no answer
    assert len(task.decode(logits, example)) > 0


def test_answers_have_at_most_max_answer_length_tokens():
    words = [f"w{i}" for i in range(25)]
    tokenizer = Tokenizer.train_word([" ".join(words)], added=BERT_TOKENS)
    example = Question("w0", " ".join(words), "w0")
    data = QuestionAnswering.Data(max_answer_length=20)
    task = QuestionAnswering(data, [example], [example], tokenizer)
    logits = np.zeros((2, len(task.encode(example)["input"])))
    logits[0, 3] = 9  # the first token of the context
    logits[1, 3:] = np.arange(len(words) + 1)  # the later the last one is, the better
    assert task.decode(logits, example).split() == words[:20]
    long = example._replace(answer=" ".join(words[:21]))
    (line,) = QuestionAnswering.warnings(data, tokenizer, Splits({"train": [example, long]}))
    assert "train: 1 of 2 questions whose answer has more than 20 tokens" in line


NUMBERS = "In 1984 Ann's 8-year-old dog had 8 café cats. In 1994 she had 9 CATS, don't you know?"
KINDS = {  # tokenizers of each kind, for contexts
    "words": Tokenizer.train_word([NUMBERS], added=BERT_TOKENS),
    "spaced words": Tokenizer.train_word([NUMBERS, "two  spaces"], added=BERT_TOKENS),
    "pieces": Tokenizer.train_wordpiece([NUMBERS], 60, added=BERT_TOKENS),
    "pairs": Tokenizer.train_bpe(["In 1984 Ann had cats."], 40, added=BERT_TOKENS),
    "pairs of bytes": Tokenizer.train_bpe([NUMBERS, "two  spaces"], 300, added=BERT_TOKENS),
    "characters": Tokenizer.train_char([NUMBERS], added=BERT_TOKENS),
}


def learned(tokenizer, context, answer, start=None):
    """What a model gives that has learned where the answer is, and where that begins; None: nothing."""
    example = Question("Who?", context, answer, start)
    task = QuestionAnswering(QuestionAnswering.Data(max_answer_length=99), [example], [example], tokenizer)
    row = task.encode(example)
    if row["target"] == (IGNORE, IGNORE):
        return None
    logits = np.zeros((2, len(row["input"])))
    logits[0, row["target"][0]] = logits[1, row["target"][1]] = 1
    tokens = context_tokens(tokenizer, context)
    return task.decode(logits, example), tokens[answer_span(tokenizer, example)[0]].start


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        (NUMBERS, "8", ("8", 33)),  # not of 1984, nor of 8-year-old
        (NUMBERS, "9", ("9", 62)),
        (NUMBERS, "had", ("had", 29)),  # the first of two places
        (NUMBERS, "cats", ("cats", 40)),
        (NUMBERS, "In 1984", ("In 1984", 0)),
        (NUMBERS, "8 CAFÉ  cats", ("8 café cats", 33)),  # capitals, spaces
        (NUMBERS, "cafe\u0301", ("café", 35)),  # Unicode's other form
        (NUMBERS.replace("é", "e\u0301"), "café", ("cafe\u0301", 35)),
        ("a  cat's\u00a0hat", "cat's hat", ("cat's\u00a0hat", 3)),
    ],
)
def test_answers_are_learned_only_at_word_boundaries(kind, context, answer, expected):
    assert learned(KINDS[kind], context, answer) == expected


def test_the_given_answer_start_is_used():
    assert learned(WORDS, "The dog. The dog.", "dog", 13) == ("dog", 13)
    assert learned(WORDS, "dogs and a dog", "dog", 0) is None  # inside a token
    problem = answer_problem(Question("Who?", "The dog.", "dog", 5))
    assert problem == "the answer 'dog' does not occur in its context at 5"


def test_the_first_answer_of_whole_tokens_is_learned():
    example = Question("Who?", "The dogs sat.", "dog", 4, ("do", "dogs", "The dogs"))
    assert answer_span(WORDS, example) == (1, 1)
    assert answer_span(WORDS, example._replace(answer="The dogs", start=0)) == (0, 1)
    assert answer_span(WORDS, example._replace(others=("do",))) is None


def test_answers_inside_a_word_can_be_learned_with_subwords():
    context = "From 1984-1994, 猫が好き"  # one word, for which only some kinds have smaller tokens
    found = {kind: learned(tokenizer, context, "1994") for kind, tokenizer in KINDS.items()}
    assert found["pieces"] == found["pairs of bytes"] == found["characters"] == ("1994", 10)
    assert found["words"] is found["spaced words"] is None
    assert learned(KINDS["characters"], context, "好") == ("好", 18)


@given(data=st.data())
def test_every_whole_word_answer_round_trips(data):
    words = st.sampled_from(
        ["1984", "8", "84", "cat", "cats", "don't", "é", "e\u0301", ".", "?", "concat", "-"]
    )
    context = " ".join(chosen := data.draw(st.lists(words, min_size=1, max_size=8)))
    start = data.draw(st.integers(0, len(chosen) - 1))
    answer = " ".join(chosen[start : data.draw(st.integers(start + 1, len(chosen)))])
    tokenizer = KINDS[data.draw(st.sampled_from(list(KINDS)))]
    given_back, place = learned(tokenizer, context, answer)
    assert given_back == answer
    assert context[:place].split() == chosen[: len(context[:place].split())]  # at a word's beginning


def test_answers_inside_tokens_are_counted_as_wrong():
    example = Question("Who?", "The dogs sat.", "dog")
    other = example._replace(answer="dogs")
    data = QuestionAnswering.Data()
    splits = {"train": [example, other], "validation": [example, other]}
    splits = QuestionAnswering.filter(data, KINDS["words"], Splits({**splits, "test": [other]}))
    assert splits["train"] == [other]
    assert describe_splits(QuestionAnswering, splits) == (
        "questions: 1 train, 2 validation, 1 test; "
        "dropped: 1 to train on whose answer begins or ends inside a token"
    )
    assert QuestionAnswering.warnings(data, KINDS["words"], splits) == [
        "warning: validation: 1 of 2 questions whose answer begins or ends inside a token; they count as "
        "wrong"
    ]
    task = QuestionAnswering(data, [], splits["validation"], KINDS["words"])

    def perfect(ids, *others):
        logits = np.zeros((*ids.shape, 2), np.float32)
        first, last = task.encode(other)["target"]
        logits[:, first, 0] = logits[:, last, 1] = 9
        return SimpleNamespace(logits=mg.tensor(logits))

    run = run_of(QuestionAnswering, KINDS["words"], perfect)
    assert task.validate(perfect)["accuracy"] == 0.5
    assert QuestionAnswering.evaluate(run, splits["validation"])[0]["exact_match"] == 0.5
    with pytest.raises(UserError, match="none of the 1 training answers begins and ends at a token"):
        QuestionAnswering.filter(data, KINDS["words"], Splits({"train": [example]}))


def test_tokens_outside_the_context_are_masked_out():
    example = Question("Who was playing?", "The cats were playing.", "The cats")
    task = QuestionAnswering(QuestionAnswering.Data(), [example], [example], WORDS)
    batch = task.collate([example], 0)
    zeros = mg.zeros((1, batch["input"].shape[1], 2))
    scores = task.logits(lambda *args: SimpleNamespace(logits=zeros), batch).numpy()
    inside = scores[0, 0] == 0
    assert WORDS.decode(batch["input"][0][inside].tolist()) == example.context


# ---------------------------------------------------------------- language modelling


def test_character_vocabularies_include_held_out_texts():
    texts = {"train": "abc", "validation": "abd", "test": "e"}
    tokenizer = LanguageModelling.train_tokenizer(LanguageModelling.Data(tokenizer="char"), 0, texts)
    assert sorted(tokenizer.token_to_id) == list("abcde")


# ---------------------------------------------------------------- masked language modelling


LONG = " ".join(TEXTS)


@pytest.mark.parametrize(
    ("kind", "settings", "rows"),  # equal texts, so that only masks and gaps differ
    [
        (MaskedLanguageModelling, {}, [(LONG,)] * 3),
        (MaskedLanguageModelling, {"next_sentence": True}, [(LONG, LONG, str(i)) for i in range(3)]),
        (Denoising, {"objective": "span_corruption", "noise": 0.3}, [LONG] * 3),
        (Denoising, {"objective": "infilling", "noise": 0.3}, [LONG] * 3),
    ],
    ids=["masks", "masks of pairs", "span corruption", "infilling"],
)
def test_masks_and_gaps_depend_only_on_step_and_row(kind, settings, rows):
    tokenizer = Tokenizer.train_word(TEXTS, added=[*BERT_TOKENS, *SENTINELS, MASK])
    task, other = (kind(kind.Data(batch_size=2, **settings), rows, rows, tokenizer) for _ in range(2))
    batches = [task.batch(step) for step in range(3)]
    again = other.batch(2)  # as after a restart
    assert again.keys() == batches[2].keys()
    for name, array in again.items():
        np.testing.assert_array_equal(array, batches[2][name])
    read = "input" if "input" in again else "source"
    assert len({batch[read][row].tobytes() for batch in batches for row in range(2)}) > 3


def masked_task(**settings):
    rows = [("The cats sat", "A dog sat", "0"), ("Who was playing?", "The dog", "1")] * 4
    if not settings.get("next_sentence"):
        rows = [row[:1] for row in rows]
    data = MaskedLanguageModelling.Data(batch_size=4, **settings)
    return MaskedLanguageModelling(data, rows, rows, WORDS)


def test_special_tokens_are_never_masked_or_inserted():
    task = masked_task()
    for step in range(30):
        batch = task.batch(step)
        chosen = batch["target"] != IGNORE
        assert (batch["target"][chosen] >= WORDS.first_ordinary_id).all()
        read = batch["input"][chosen]
        assert ((read >= WORDS.first_ordinary_id) | (read == WORDS.special_id("[MASK]"))).all()
        assert "follows" not in batch
        assert batch.n_tokens == chosen.sum()


def test_negative_second_sentences_come_from_the_scored_split():
    task = masked_task(next_sentence=True)
    scored = [("The dog sat", "The cats sat", "0"), ("A mat", "A garden", "1")] * 10
    spied = []
    task.encode = lambda example: spied.append(example) or type(task).encode(task, example)
    batches = list(task.batches(scored))
    assert {example[1] for example in spied} == {"The cats sat", "A garden"}
    assert 0 < sum(int(batch["follows"].sum()) for batch in batches) < 20


def test_sentence_pair_and_word_losses_are_added():
    task = masked_task(next_sentence=True)
    batch = next(iter(task.batches([("The dog sat", "The cats sat", "0"), ("A mat", "A garden", "1")])))
    rng = np.random.default_rng(0)
    words = mg.tensor(rng.normal(size=(*batch["target"].shape, WORDS.vocab_size)))
    follows = mg.tensor(rng.normal(size=(len(batch["follows"]), 2)))
    task.outputs = lambda model, batch: (words, follows)
    nll = lambda logits, target: F.cross_entropy(
        logits.flatten(0, -2), mg.tensor(target.reshape(-1)), ignore_index=IGNORE, reduction="sum"
    )
    expected = nll(words, batch["target"]) + nll(follows, batch["follows"])
    assert task.loss(None, batch, 0.0).item() == pytest.approx(expected.item())
    assert task.logits(None, batch) is words


def test_class_0_of_next_sentence_means_it_follows():
    row = {"input": [WORDS.special_id("[MASK]")]}
    words = np.zeros((1, WORDS.vocab_size))
    found = masked_task(next_sentence=True).fill_in(row, words, np.log([0.8, 0.2]), 1)
    assert found.values["follows"] == pytest.approx(0.8)


def test_inputs_up_to_the_length_limit_are_accepted():
    check_length(5, 5, "text")
    with pytest.raises(UserError, match="6"):
        check_length(6, 5, "text")


def test_sentence_pairs_are_cached_by_text():
    task = masked_task(next_sentence=True)
    for step in range(20):
        task.batch(step)
    assert task.token_ids.cache_info().currsize == 4  # texts


def test_too_long_texts_are_skipped_and_counted(capsys):
    def model(ids):
        assert ids.shape[1] <= 6
        return mg.zeros((*ids.shape, WORDS.vocab_size))

    run = run_of(MaskedLanguageModelling, WORDS, model, max_length=6)
    long = ("The cats were playing in the garden",)
    assert MaskedLanguageModelling.evaluate(run, [("A dog sat",), long])[0]["n"] == 1
    assert capsys.readouterr().err == "warning: left out 1 row: too long (more than 6 tokens, --max-length)\n"
    with pytest.raises(UserError, match=r"no rows can be used: too long \(more than 6 tokens"):
        MaskedLanguageModelling.evaluate(run, [long])


# ---------------------------------------------------------------- similarity


def test_constant_text_vectors_retrieve_no_partner():
    run = run_of(Similarity, WORDS, lambda ids: mg.ones((len(ids), 2)), max_length=6)
    long = ("The cats were playing in the garden", "A mat")
    pairs = [("A dog", "The dog"), ("The cats", "The mat"), ("A cat", "A mat")]
    scores = Similarity.evaluate(run, [*pairs, long])[0]
    assert scores["n"] == 3
    assert scores["accuracy"] == 0
    assert scores["mrr"] == pytest.approx(1 / 3)
    assert Similarity.evaluate(run, [("A dog", "The dog"), ("The dog", "The dog")])[0]["accuracy"] == 1


def test_nearest_texts_are_searched_in_the_whole_split():
    pairs = [("The cats", "A dog"), ("Who sat", "on the mat"), ("cats sat", "A mat"), ("in the", "garden")]
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(WORDS.token_to_id), 2)).astype(np.float32)

    def model(ids):
        sums = vectors[ids].sum(1)
        return mg.tensor(sums / np.linalg.norm(sums, axis=1, keepdims=True))

    run = run_of(Similarity, WORDS, model, batch_size=1)  # in a batch of one, each partner is the nearest
    validation = Similarity(run.recipe.data, pairs, pairs, WORDS).validate(model)
    test = Similarity.evaluate(run, pairs)[0]
    assert validation == pytest.approx({name: test[name] for name in ("accuracy", "mrr", "loss")})
    assert test["accuracy"] < 1


@pytest.mark.parametrize(("micro_batches", "size"), [(2, 1), (1, 2)])
def test_splitting_similarity_batches_is_rejected_early(tmp_path, micro_batches, size):
    ranks = Ranks()
    pairs = [("A dog", "The dog"), ("The cats", "The mat")]
    ranks.size = size
    task = Similarity(Similarity.Data(), pairs, pairs, WORDS)
    config = TrainConfig(micro_batches=micro_batches)
    with pytest.raises(UserError, match="cannot be split into 2 parts"):
        Trainer(nn.Linear(2, 2), task, config, tmp_path / "run", ranks=ranks)
    assert not (tmp_path / "run").exists()


def test_causal_translation_learns_only_the_target():
    data = CausalTranslation.Data(max_length=8)
    task = CausalTranslation(data, [("Who was playing?", "The cats .")], [], WORDS)
    batch = task.batch(0)
    source, target = WORDS.encode("Who was playing?"), WORDS.encode("The cats .")
    prompt = [*source, WORDS.end_id, WORDS.start_id]
    assert CausalTranslation.source_ids(WORDS, "Who was playing?") == prompt
    np.testing.assert_array_equal(batch["input"], [[*prompt, *target]])
    ignored = [IGNORE] * (len(prompt) - 1)
    np.testing.assert_array_equal(batch["target"], [[*ignored, *target, WORDS.end_id]])
    with pytest.raises(UserError, match="n_positions = 15"):
        CausalTranslation.check(data, GPTConfig(n_positions=15))


@pytest.mark.parametrize(
    ("task", "lines", "problem"),
    [
        ("masked-language-modelling", '[data]\nnext_sentence = true\n[model]\nhead = "masked_lm"',
         "needs head = 'pretraining', got 'masked_lm'"),
        *((task, '[model]\nmodel_type = "transformer"\ntarget_vocab_size = 30',
           "target_vocab_size = 30, but .* has one tokenizer")
          for task in ("translation", "text-to-text", "denoising")),
        ("denoising", '[data]\nobjective = "span-corr"', r"unknown objective 'span-corr'"),
        ("translation", '[data]\ndataset = "revers"', "Did you mean reverse"),
    ],
)  # fmt: skip
def test_recipes_that_contradict_their_task_are_rejected(task, lines, problem):
    with pytest.raises(UserError, match=problem):
        parse_recipe(f'task = "{task}"\n{lines}', "mine", "mine.toml")


def test_every_prefix_in_the_data_is_scored():
    recipe = load_recipe("t5-prefixes")
    recipe = replace(recipe, model=replace(recipe.model, d_model=16, num_heads=2, d_kv=8, d_ff=16))
    pairs = [("shout: a b", "A B"), ("shout: c", "C"), ("spell:d", "D")]
    splits = Splits({"train": pairs})
    tokenizer = TextToText.train_tokenizer(recipe.data, recipe.vocab_size, splits)
    model = runs.build_model(recipe, tokenizer).eval()
    run = SimpleNamespace(recipe=recipe, tokenizer=tokenizer, labels=[], model=model)
    scores, _ = TextToText.evaluate(run, pairs)
    found = [name for name in scores if name.startswith("exact_match, ")]
    assert found == ["exact_match, shout", "exact_match, spell"]


def test_next_sentence_data_requires_several_documents(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("\n".join(f"Sentence {i}." for i in range(30)), encoding="utf-8")
    data = MaskedLanguageModelling.Data(dataset="file", next_sentence=True)
    with pytest.raises(UserError, match="1 document is too few"):
        MaskedLanguageModelling.splits(data, Sources(path))


# ---------------------------------------------------------------- denoising


def test_gaps_in_user_texts_are_special_tokens():
    tokenizer = Tokenizer.train_word(TEXTS, added=[*SENTINELS, MASK])
    ids = marked_ids(tokenizer, "The <extra_id_0> sat on <extra_id_10><MASK>", Denoising.marks)
    assert [tokenizer.id_to_token[i] for i in ids] == [
        "The", "<extra_id_0>", "sat", "on", "<extra_id_10>", "<MASK>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "right", "wrong"),
    [("infilling", MASK, "<extra_id_0>"), ("span_corruption", "<extra_id_0>", MASK)],
)
def test_gaps_of_a_different_objective_are_rejected(objective, right, wrong):
    check_gaps(f"A dog {right}", objective)
    with pytest.raises(UserError, match=f"\nWrite {re.escape(right)}"):
        check_gaps(f"A dog {wrong}", objective)


# ---------------------------------------------------------------- images


def test_warps_depend_only_on_step_and_row():
    image = np.zeros((1, 8, 8), np.float32)
    image[0, 3:5, 3:5] = 1
    task = ImageClassification(ImageClassification.Data(batch_size=16), [(image, 0)] * 16, [])
    many = task.batch(3)["input"]
    assert (many[0] != image).any()
    assert (many[0] != many[1]).any()
    assert (many != task.batch(4)["input"]).any()
    np.testing.assert_array_equal(task.collate([(image, 0)] * 2, 3)["input"], many[:2])
    np.testing.assert_array_equal(task.collate([(image, 0)], VALIDATION)["input"], image[None])


def test_user_image_files_are_split_without_duplicates(tmp_path):
    images = np.arange(480, dtype=np.float32).reshape(30, 4, 4)
    labels = np.arange(30) % 3
    twice = {"images": np.concatenate([images, images[:5]]), "labels": np.concatenate([labels, labels[:5]])}
    np.savez(tmp_path / "mine.npz", **twice)
    data = ImageClassification.Data(dataset="file")
    splits = ImageClassification.splits(data, Sources(tmp_path / "mine.npz"))
    assert {name: len(split) for name, split in splits.items()} == {"train": 24, "validation": 3, "test": 3}
    assert splits.dropped["duplicates"] == 5
    assert ImageClassification.labels(data, splits) == ["0", "1", "2"]


def test_image_classes_come_from_the_training_images():
    image = np.zeros((1, 8, 8), np.float32)
    splits = {"train": [(image, 0), (image, 1)], "test": [(image, 5)]}
    assert ImageClassification.labels(None, splits) == ["0", "1"]
    task = ImageClassification(ImageClassification.Data(), [], [], None, ["0", "1"])
    assert task.collate([(image, 1), (image, 5)], VALIDATION)["target"].tolist() == [1, IGNORE]
    with pytest.raises(UserError, match=r"that makes 1,000,000,000,001 classes, but there is 1 training"):
        ImageClassification.labels(None, {"train": [(image, 10**12)]})


def test_images_of_a_wrong_size_are_rejected_with_a_fix():
    recipe = load_recipe("digits-vit")
    convert = "Convert the images to 8 x 8 pixels, 1 channel"
    for shape, fix in (
        ((3, 9, 9), f"{convert}, or change the model with --num-channels 3 --image-size 9 --patch-size 1;"),
        ((1, 9, 9), f"{convert}, or change the model with --image-size 9 --patch-size 1;"),
        ((1, 10, 10), f"{convert}, or change the model with --image-size 10;"),
        ((1, 8, 9), f"{convert}."),
    ):
        splits = {name: [(np.zeros(shape, np.float32), 0)] for name in ("train", "validation")}
        problem = f"the images have shape {shape}, but the model reads (1, 8, 8): channels, height, width."
        with pytest.raises(UserError, match=re.escape(f"{problem}\n{fix}")):
            task_class(recipe.task).build(recipe, None, splits, ["0"])


# ---------------------------------------------------------------- text to text


@pytest.mark.slow
def test_every_prefix_has_correct_examples():
    splits = TextToText.splits(TextToText.Data(), Sources())
    pairs = dict(splits["train"])
    assert pairs["negate: We know this museum."] == "We do not know this museum."
    for source, target in splits["test"]:
        prefix, _, text = source.partition(": ")
        if prefix == "ask":
            assert target.endswith("?")
        if prefix == "negate":
            assert " not " in target or "cannot" in target
        if prefix == "question":
            assert target in text
        if prefix == "summarize":
            assert " and " in target
    train = set(pairs)
    assert not any(source in train for source, _ in splits["test"])
