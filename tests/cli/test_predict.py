"""`predict`: what a trained run says of a user's own texts and images."""

import io
import json
import re
import shlex
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minigrad as mg
from minitransformer.cli import main
from minitransformer.cli.evaluate import splits_of
from minitransformer.data.digits import read_image, read_images
from minitransformer.data.splits import Sources, checksums
from minitransformer.errors import UserError
from minitransformer.models.protocol import MODELS
from minitransformer.pretrained.images import read_processor
from minitransformer.recipes import Recipe, load_recipe, with_own_data
from minitransformer.runs.folder import begin, new_record
from minitransformer.runs.run import Run, build_model, load_splits
from minitransformer.tasks import TASKS, task_class
from minitransformer.tasks.inputs import marked_ids
from minitransformer.text.words import WordSplitter, words_with_marks
from minitransformer.training.config import TrainConfig
from minitransformer.training.trainer import Trainer
from tests.tasks.test_of_your_own import Scorer, Sums

THINGS = ("house", "cat", "dog", "car", "hat", "cup")
TEXTS = [f"the {thing} is {colour}" for thing in THINGS for colour in ("red", "tan")]
CONTEXTS = [f"{text}. the man is here." for text in TEXTS]
WORDS = [text.split() for text in TEXTS]
DATA = {  # a recipe, and the lines of a file for it
    "classify": ("bert-classify", [f"{text}\t{text.split()[3]}" for text in TEXTS]),
    "tag": ("bert-tag", ["\n".join(f"{word}\t{len(word)}" for word in words) + "\n" for words in WORDS]),
    "answers": (
        "bert-answers",
        [f"what is the {w[1]} ?\t{context}\t{w[3]}" for w, context in zip(WORDS, CONTEXTS, strict=True)],
    ),
    "masked": ("bert-mlm", [f"{text}\n{text[4:]}\n" for text in TEXTS]),
    "similar": ("bert-similar", [f"{text}\t{text[4:]}" for text in TEXTS]),
    "denoise": ("t5-denoise", [f"{text} {text}" for text in TEXTS]),
    "language": ("shakespeare-char-cpu", TEXTS * 2),
    "images": ("digits-vit", []),
}
SETTINGS = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 32, "num_layers": 1,
    "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 24,
    "block_size": 8, "batch_size": 4, "max_length": 24,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    for name, (recipe, lines) in DATA.items():
        file = folder / f"{name}.txt"
        file.write_text("\n".join(lines) + "\n")
        if name == "images":
            file = folder / "images.npz"
            pixels = np.random.default_rng(0).integers(0, 17, (20, 8, 8))
            np.savez(file, images=pixels, labels=np.arange(20) % 2)
        train(folder / name, with_own_data(load_recipe(recipe), file.name), Sources(file))
    return folder


def smaller(config, **settings):
    names = {field.name for field in fields(config)}
    return replace(config, **{key: value for key, value in {**SETTINGS, **settings}.items() if key in names})


def train(folder, recipe, sources, steps=2):
    """Write a run folder, as `train` does."""
    masked = {"next_sentence": True, "head": "pretraining"} if folder.name == "masked" else {}
    training = replace(recipe.training, steps=steps, warmup_steps=1, label_smoothing=0.0)
    data = smaller(recipe.data, **masked)
    model = smaller(recipe.model, **masked)
    recipe = replace(recipe, data=data, model=model, training=training)
    splits = load_splits(recipe, sources=sources)
    kind = task_class(recipe.task)
    tokenizer = kind.train_tokenizer(recipe.data, recipe.vocab_size, splits)
    labels = kind.labels(recipe.data, splits)
    record = new_record(recipe, tokenizer, checksums(splits), sources, labels, reading=kind.reading(splits))
    folder.mkdir()
    begin(folder, record, recipe, tokenizer)
    task = kind.build(recipe, tokenizer, splits, labels)
    model = build_model(recipe, tokenizer, labels)
    assert Trainer(model, task, recipe.training, folder, identity=record.identity).train()


@pytest.fixture
def cli(runs, monkeypatch, capsys):
    """Runs a command among the runs, with standard input; gives exit code, output and errors."""
    monkeypatch.chdir(runs)

    def run(*argv, stdin=None):
        capsys.readouterr()
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return run


def predicted(cli, run, *texts, options=()):
    """The JSON objects that `predict` prints."""
    code, out, err = cli("predict", run, *texts, "--json", *options)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def rows(folder, split="train"):
    """What `evaluate` would write to predictions.txt for a split."""
    run = Run(folder)
    return run.task.evaluate(run, run.splits()[split])[1][1:]


# ---------------------------------------------------------------- what each kind of run says


@pytest.mark.parametrize("run", ["classify", "tag", "answers", "denoise"])
@pytest.mark.slow
def test_predict_matches_the_predictions_of_evaluate(cli, runs, run):
    given, _, expected = zip(*rows(runs / run), strict=True)
    found = predicted(cli, run, *(text.replace(" | ", "\t") for text in given))
    said = [" ".join(f["prediction"]) if run == "tag" else f["prediction"] for f in found]
    assert said == list(expected)
    assert len(said) > 1


@pytest.mark.parametrize("run", DATA)
def test_validation_and_test_scores_agree_on_the_same_examples(runs, run):
    trained = Run(runs / run)
    examples = trained.task.filter(trained.recipe.data, trained.tokenizer, trained.splits())["train"]
    splits = {"train": examples, "validation": examples}
    task = trained.task.build(trained.recipe, trained.tokenizer, splits, trained.labels)
    validation = task.validate(trained.model)
    test = trained.task.evaluate(trained, examples)[0]
    common = validation.keys() & test.keys()
    assert common >= {"loss"} | ({"accuracy"} & test.keys())
    assert {name: validation[name] for name in common} == pytest.approx({name: test[name] for name in common})


def test_labels_come_with_probabilities(cli):
    code, out, err = cli("predict", "classify", "the cat is red", "--top", 2)
    (found,) = predicted(cli, "classify", "the cat is red")
    assert (code, err) == (0, "")
    assert sum(found["candidates"].values()) == pytest.approx(1)
    (first, p), (second, q) = list(found["candidates"].items())[:2]
    assert p >= q
    assert out == f"{first} {p:.1%}, {second} {q:.1%}\n"
    assert (found["prediction"], found["probability"]) == (first, p)


def test_tags_are_printed_beside_words_as_in_data_files(cli, runs):
    one = cli("predict", "tag", "the cat")
    two = cli("predict", "tag", "the cat", "is red")
    found = predicted(cli, "tag", "the cat", "is red")
    columns = [line.split() for line in two[1].splitlines()]
    pairs = [[*map(list, zip(f["words"], f["prediction"], strict=True)), []] for f in found]
    assert columns == [row for sentence in pairs for row in sentence]
    assert two[1].startswith(one[1])


def test_questions_are_two_arguments_or_tab_separated(cli):
    question = "what is the cat ?"
    context = CONTEXTS[2]
    one = cli("predict", "answers", question, context)
    assert one == cli("predict", "answers", f"{question}\t{context}")
    assert one == cli("predict", "answers", stdin=f"{question}\t{context}\n")
    answer, chance = one[1].rsplit(maxsplit=1)
    assert answer in context
    assert 0 < float(chance[:-1]) <= 100


def test_each_mask_gets_its_most_likely_words(cli, runs):
    text = "the [MASK] is [MASK]"
    (found,) = predicted(cli, "masked", text, options=("--top", 3))
    model = Run(runs / "masked").model
    tokenizer = Run(runs / "masked").tokenizer
    ids = [
        tokenizer.special_id("[CLS]"),
        *marked_ids(tokenizer, text, ["[MASK]"]),
        tokenizer.special_id("[SEP]"),
    ]
    with mg.no_grad():
        chances = model(np.array([ids])).logits.softmax(-1).numpy()[0]
    for place, candidates in zip((2, 4), found["masks"], strict=True):
        best = np.argsort(-chances[place])[:3]
        assert [tokenizer.token_to_id[word] for word in candidates] == best.tolist()
        np.testing.assert_allclose(list(candidates.values()), chances[place][best], rtol=1e-5)
    assert found["prediction"].split()[::2] == ["the", "is"]
    assert cli("predict", "masked", text)[1].count(" | ") == 1


def test_predicts_whether_the_second_text_follows_the_first(cli):
    one, two = predicted(
        cli, "masked", "the cat is red\tthe cat is [MASK]", "the [MASK] is red\tthe car is tan"
    )
    assert len(one["masks"]) == len(two["masks"]) == 1
    assert 0 < one["follows"] < 1
    assert "the second follows the first" in cli("predict", "masked", "the cat\tthe car")[1]


def test_similarity_is_the_cosine_of_the_vectors(cli):
    same, other, back = predicted(
        cli, "similar", "the cat", "the cat", "the cat", "the tan house", "the tan house", "the cat"
    )
    assert same["prediction"] == pytest.approx(1)
    assert same["prediction"] > other["prediction"] == pytest.approx(back["prediction"])


# ---------------------------------------------------------------- words

TAGGED = shlex.split("""Tom "'s" U.S. friend do "n't" well-known 3.14 ... ( ) . café "l'" eau""")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tom's friend in the U.S. (3.14)", "Tom 's friend in the U.S. ( 3.14 )"),
        ("Tom’s well-known U.S.-friend...", "Tom ’s well-known U.S. - friend ..."),
        ("I don't (see fig.)", "I do n't ( see fig . )"),
        ("ill-fed, 2.71 yes/no", "ill-fed , 2.71 yes / no"),  # "well-known" and 3.14 stay one word
        ("L'eau, aujourd'hui", "L' eau , aujourd'hui"),
        ("cafe\u0301.", "cafe\u0301 ."),
        ('"U.S."', '" U.S. "'),
        ("हिन्दी।", "हिन्दी ।"),
    ],
)
def test_texts_are_split_into_words_like_the_training_data(text, words):
    assert WordSplitter(words_with_marks(TAGGED)).split(text) == words.split()


def test_punctuation_except_apostrophes_is_split_off():
    assert " ".join(WordSplitter([]).split("A well-known man's hat.")) == "A well - known man's hat ."


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1).filter(str.split)
    )
)
@example(["U.S.", "U.S.A."])
@pytest.mark.slow
def test_space_separated_training_words_are_split_unchanged(words):
    words = " ".join(words).split()
    assert WordSplitter(words_with_marks(words)).split(" ".join(words)) == words


def test_words_flag_keeps_the_given_word_boundaries(cli, runs):
    found = json.loads(cli("predict", "tag", "the cat. is", "--words", "--json")[1])
    assert found["words"] == found["input"] == ["the", "cat.", "is"]
    one = cli("predict", "tag", "--words", "the cat.")
    lines = cli("predict", "tag", "--words", stdin="the cat.\n")
    assert (one[0], f"{one[1]}\n") == lines[:2]
    run = Run(runs / "tag")
    (prediction,) = run.task.predictions(run, [[["the", "cat.", "is"]]])
    assert prediction.values == {key: value for key, value in found.items() if key != "input"}
    for words, message in ((["the", "a cat"], "without spaces, got 'a cat'"), ([], "an empty text")):
        with pytest.raises(UserError, match=message):
            run.task.predictions(run, [[words]])
    other = Run(runs / "classify")
    with pytest.raises(UserError, match=r"classify reads texts, got \['the'\]"):
        other.task.predictions(other, [[["the"]]])
    assert "--words has no effect" in cli("predict", "classify", "--words", "the cat")[2]


# ---------------------------------------------------------------- images


def test_test_images_are_selected_by_number(cli, runs):
    expected = rows(runs / "images", "test")
    found = predicted(cli, "images", *(f"test:{i}" for i in range(len(expected))))
    assert [(f["label"], f["prediction"]) for f in found] == [tuple(row[1:]) for row in expected]
    assert f"(labelled {found[0]['label']})" in cli("predict", "images", "test:0")[1]


def save_images(path, images):
    np.savez(path, images=images, labels=np.arange(len(images)) % 2)
    return path


def train_on_images(folder, images, test=None):
    """A run of three files of images, of which the last two have some of the first."""
    folder.mkdir()
    test = images[8:10] if test is None else test
    files = {"train": images, "validation": images[4:8], "test": test}
    sources = Sources(*(save_images(folder / f"{name}.npz", array) for name, array in files.items()))
    recipe = with_own_data(load_recipe("digits-vit"), "train.npz")
    train(folder / "run", recipe, sources)
    return Run(folder / "run")


@pytest.mark.parametrize(
    ("dtype", "largest"), [("uint8", 200), ("int64", 16), ("float32", 1), ("float64", 200)]
)
def test_image_pixels_are_scaled_as_in_training(tmp_path, dtype, largest, capsys):
    brightness = np.random.default_rng(0).random((12, 8, 8))
    brightness[0, 0, 0], brightness[1:] = 1, brightness[1:] / 4  # one bright image, in the training file
    images = (brightness * largest).astype(dtype)
    run = train_on_images(tmp_path / dtype, images)
    integers = np.dtype(dtype).kind in "ui"
    read = images.astype(np.float32)[:, None] / np.float32(largest if integers else 1)
    splits = run.splits()
    training = [0, 1, 2, 3, 10, 11]  # the examples that are not held out
    for name, rows in (("train", training), ("validation", range(4, 8)), ("test", range(8, 10))):
        np.testing.assert_array_equal([image for image, _ in splits[name]], read[list(rows)])
    other, _ = splits_of(run, save_images(tmp_path / "other.npz", images[3:7]), None)
    np.testing.assert_array_equal([image for image, _ in other["test"]], read[3:7])
    for i in (0, 3):
        np.save(tmp_path / "one.npy", images[i])
        image, _ = run.task.read(run, [str(tmp_path / "one.npy")])
        np.testing.assert_array_equal(image, read[i])
    assert "does not say" not in capsys.readouterr().err


def save_picture(path, pixels):
    from PIL import Image

    Image.fromarray(pixels).save(path)
    return path


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_a_saved_training_image_is_read_back_unchanged(tmp_path, dtype, capsys):
    images = np.random.default_rng(0).integers(0, 190, (12, 8, 8)).astype(dtype)
    run = train_on_images(tmp_path / "mine", images)
    path = save_picture(tmp_path / "one.png", images[8].astype(np.uint8))
    array, picture = (run.task.read(run, [name])[0] for name in ("test:0", str(path)))
    np.testing.assert_array_equal(picture, array)
    assert main(["export", str(run.folder), str(tmp_path / "hub")]) == 0
    exported = read_processor(tmp_path / "hub", run.recipe.model).read_image(path)
    np.testing.assert_allclose(exported, array, rtol=1e-6)
    assert ("the training images are floats" in capsys.readouterr().err) == (dtype == "float32")


@pytest.mark.parametrize(("dtype", "largest"), [("uint8", 16), ("float32", 1)])
def test_white_is_1_for_float_training_pixels(tmp_path, dtype, largest, capsys):
    images = (np.random.default_rng(0).random((12, 8, 8)) * largest).astype(dtype)
    run = train_on_images(tmp_path / "mine", images)
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8)).astype(np.uint8)
    path = save_picture(tmp_path / "one.png", pixels)
    image, _ = run.task.read(run, [str(path)])
    np.testing.assert_allclose(image[0], pixels / 255, rtol=1e-6)
    assert main(["export", str(run.folder), str(tmp_path / "hub")]) == 0
    exported = read_processor(tmp_path / "hub", run.recipe.model).read_image(path)
    np.testing.assert_allclose(exported, image, rtol=1e-6)
    assert "one.png has" not in capsys.readouterr().err


def test_jpegs_are_rotated_upright_and_converted_to_grey(tmp_path):
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8)).astype(np.uint8)
    images[0, 0, 0] = 255
    run = train_on_images(tmp_path / "mine", images)
    orientation = Image.Exif()
    orientation[274] = 3  # upside down
    path = tmp_path / "one.jpg"
    Image.fromarray(np.repeat(images[8, ..., None], 3, -1)).save(path, exif=orientation, quality=100)
    image, _ = run.task.read(run, [str(path)])
    np.testing.assert_allclose(image[0], images[8, ::-1, ::-1] / 255, atol=2 / 255)


def test_16_bit_images_are_rejected(tmp_path):
    deep = np.full((8, 8), 40_000, np.uint16)
    with pytest.raises(UserError, match=r"deep.png has 16 bits in a pixel.*\nSave it with 8 bits"):
        read_image(save_picture(tmp_path / "deep.png", deep), 1)
    with pytest.raises(UserError, match=r"pixels of 8 bits, got some up to 40000.\nSave floats.* / 65535"):
        read_images(save_images(tmp_path / "deep.npz", np.stack([deep] * 2)))


def test_keras_npz_training_images_are_read(tmp_path, capsys):
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=np.arange(3), x_test=images, y_test=np.arange(3))
    found = read_images(tmp_path / "mnist.npz")
    np.testing.assert_allclose(found.images[:, 0], images / images.max(), rtol=1e-6)
    assert found.labels.tolist() == [0, 1, 2]
    assert "x_test and y_test are not" in capsys.readouterr().err


def test_pixels_outside_the_training_range_are_reported(tmp_path, capsys):
    images = np.random.default_rng(0).integers(0, 101, (12, 8, 8)).astype(np.uint8)
    images[0, 0, 0] = 100
    run = train_on_images(tmp_path / "mine", images)
    bright = images[:4] + np.uint8(20)

    def read(run, array):
        np.save(tmp_path / "one.npy", array)
        return run.task.read(run, [str(tmp_path / "one.npy")])[0]

    np.testing.assert_array_equal(read(run, bright[0]), bright[:1].astype(np.float32) / np.float32(100))
    said = "has integer pixels up to 120, but the training images have integers up to 100"
    assert f"one.npy {said}" in capsys.readouterr().err
    other = np.minimum(images[0] * 2.5, 255)
    np.testing.assert_array_equal(read(run, other)[0], other.astype(np.float32))  # as they are
    assert "one.npy has floats up to 250, the model was trained on up to 1" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"pixels up to 250, .* up to 100.\nSave floats .* divided by 100\."):
        read(run, other.astype(np.uint8))
    with pytest.raises(UserError, match=f"other.npz {said}"):
        splits_of(run, save_images(tmp_path / "other.npz", bright), None)
    with pytest.raises(UserError, match=f"test.npz {said}"):
        train_on_images(tmp_path / "larger", images, bright)
    floats = train_on_images(tmp_path / "floats", images / 100)
    with pytest.raises(UserError, match="up to 100, but the training images have floats up to 1"):
        read(floats, images[0])


def test_image_files_need_nonnegative_training_pixels(tmp_path, capsys):
    images = np.random.default_rng(0).uniform(-1, 1, (12, 8, 8))
    images[:2, 0, 0] = -1, 1
    run = train_on_images(tmp_path / "mine", images)
    path = save_picture(tmp_path / "one.png", np.zeros((8, 8), np.uint8))
    with pytest.raises(
        UserError, match=r"one.png .* was trained on pixels from -1 to 1, and how .* not known"
    ):
        run.task.read(run, [str(path)])
    np.save(tmp_path / "one.npy", images[8])
    np.testing.assert_array_equal(
        run.task.read(run, [str(tmp_path / "one.npy")])[0][0], images[8].astype(np.float32)
    )
    assert "warning" not in capsys.readouterr().err
    assert main(["export", str(run.folder), str(tmp_path / "hub")]) == 0
    assert "warning: no preprocessor_config.json is written" in capsys.readouterr().err
    assert not (tmp_path / "hub" / "preprocessor_config.json").exists()


@pytest.mark.parametrize("run", ["classify", "tag", "masked", "denoise", "language"])
def test_graph_draws_a_user_text_without_a_target(cli, runs, run):
    code, out, err = cli("graph", run, "the cat is red", "-o", "text.dot", "--overwrite", "--depth", 0)
    assert (code, err, out.splitlines()[0]) == (0, "", "the cat is red")


# ---------------------------------------------------------------- standard input


def test_each_line_gets_a_prediction_and_bad_lines_a_warning(cli):
    lines = ["the cat is red", "", "the " * 30, "the dog is tan"]
    code, out, err = cli("predict", "classify", stdin="\n".join(lines) + "\n")
    first, last = cli("predict", "classify", lines[0], lines[3])[1].splitlines()
    assert (code, out.split("\n")) == (0, [first, "", "", last, ""])
    assert err.startswith("warning: line 3 is not read: the input has 32 tokens, but this run takes at")
    out = cli("predict", "classify", "--json", stdin="\n".join(lines))[1]
    assert [line == "null" for line in out.splitlines()] == [False, True, True, False]


def test_unknown_word_warning_excludes_special_tokens(cli):
    warning = "warning: not in the vocabulary, read as <UNK>: zebra\n"
    assert cli("predict", "classify", "the zebra is red")[2] == warning
    assert cli("predict", "masked", "the zebra is [MASK]")[2] == warning
    assert cli("translate", "denoise", "the zebra is <extra_id_0>")[2] == warning
    unseen = warning.replace("zebra", r"'\u200b'")  # by its code
    assert cli("predict", "classify", "the \u200b is red")[2] == unseen


def test_empty_texts_are_skipped_with_a_warning(cli):
    (alone,) = cli("predict", "classify", "the cat is red")[1].splitlines()
    code, out, err = cli("predict", "classify", "", "the cat is red", " ", "the " * 30)
    assert (code, out.split("\n")) == (0, ["", alone, "", "", ""])
    assert re.findall(r"warning: text (\d) is not read", err) == ["1", "3", "4"]
    assert cli("predict", "classify", "", " ")[0] == 2


# ---------------------------------------------------------------- what cannot be predicted


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["clasify", "x"], "there is no run folder clasify. Did you mean classify?"),
        (["classify", " "], "classify reads a text, got an empty text"),
        (["classify", "a\tb"], "classify reads a text, got 2 texts"),
        (["classify", "the " * 30], "the input has 32 tokens, but this run takes at most 24: 'the the"),
        (["classify", "the cat", "--top", 0], "top = 0 is out of range"),
        (["answers", "what?"], "answers reads a question and a context, got 1 text."),
        (["answers", "what?", "the " * 30], "the input has 35 tokens, but this run takes at most 24"),
        (["masked", "the cat"], "there is no [MASK] in 'the cat'"),
        (["similar", "the cat"], "similar reads a text and another to compare it with, got 1 text"),
        (["denoise", "the cat"], "'the cat' has no gap"),
        (["denoise", "<extra_id_1> <MASK>"], "the gaps <extra_id_1>, <MASK>, not <extra_id_0>, <extra_id_1>"),
        (["images", "none.png"], "there is no image 'none.png'"),
        (["images", "images.npz"], "images.npz is not an image that can be read.\nPass a .png, .jpg or .npy"),
        (["images", "large.npy"], "large.npy has shape (1, 9, 8), but this run reads (1, 8, 8): channels, "
         "height, width.\nConvert the image to 8 x 8 pixels, 1 channel."),
        (["images", "row.npy"], "an image must be numbers of shape (H, W) or (H, W, C), got float64 (8,)"),
        (["images", "nan.npy"], "nan.npy: an image must be finite, got pixels that are infinite or NaN"),
        (["images", "test:1000"], "test:1000: the test split has 2 images"),
        (["language", "x"], "language is a language model, which cannot predict labels or answers.\n"
         "Use `minitransformer generate language`"),
    ],
    ids=lambda value: " ".join(map(str, value))[:30] if isinstance(value, list) else "",
)  # fmt: skip
def test_unreadable_predict_input_gives_a_two_line_error(cli, runs, argv, message):
    for name, array in (("large", np.zeros((9, 8))), ("row", np.zeros(8)), ("nan", np.full((8, 8), np.nan))):
        np.save(runs / f"{name}.npy", array)
    code, out, err = cli("predict", *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 2


# ---------------------------------------------------------------- a task of one's own


class Readable(Sums):
    name = "readable-sums"

    @classmethod
    def read(cls, run, texts):
        return np.float32(texts[0].split()), 0


def test_user_defined_tasks_predict_if_they_define_read(cli, runs, monkeypatch):
    monkeypatch.setitem(MODELS, "scorer", Scorer)
    for task in (Sums, Readable):
        monkeypatch.setitem(TASKS, task.name, task)
        recipe = Recipe(task.name, model_type="scorer", training=TrainConfig(lr=0.3))
        train(runs / task.name, recipe, Sources(), steps=40)
    code, out, err = cli("predict", "readable-sums", "-1 -2 0 0 0", "9 9 9 9 9")
    assert (code, err) == (0, "")
    assert [line.partition(" ")[0] for line in out.splitlines()] == ["negative", "positive"]
    ((found),) = predicted(cli, "readable-sums", "9 9 9 9 9")
    assert (found["input"], found["prediction"]) == ("9 9 9 9 9", "positive")
    code, _, err = cli("predict", "sums", "x")
    assert code == 2
    assert "sums is a classifier, which cannot predict labels or answers" in err
    code, _, err = cli("graph", "sums", "x", "-o", "graph.dot")
    assert code == 2
    assert "the task sums cannot read a text: it has no `read`" in err
