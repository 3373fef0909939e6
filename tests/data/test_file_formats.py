"""Data files in the forms that others publish: each is read for what it is, or refused before training, with
the flag or the fix."""

import csv
import gzip
import json
import re
import tomllib
from dataclasses import dataclass, replace

import pytest

from minitransformer.cli import main
from minitransformer.data.datasets import read_long_text, read_pairs
from minitransformer.data.labels import (
    read_answered,
    read_documents,
    read_labelled,
    read_tagged,
    right_answers,
)
from minitransformer.data.tables import FileFormat
from minitransformer.errors import UserError
from minitransformer.files import sha256
from minitransformer.runs import folder as folders
from minitransformer.runs.run import Run
from minitransformer.tasks import Classification
from tests.tiny import TINY, TINY_BERT, TINY_GPT

ADJECTIVES = ("red", "old", "new", "big", "sad", "hot")
NOUNS = ("hat", "cat", "dog", "cup", "car")
TEXTS = [f"the {noun} is {adjective}" for noun in NOUNS for adjective in ADJECTIVES]  # 30
FRENCH = [f"le {noun} est {adjective}" for noun in NOUNS for adjective in ADJECTIVES]
LABELS = ["pos" if i % 2 else "neg" for i in range(len(TEXTS))]
LABELLED = list(zip(TEXTS, LABELS, strict=True))
PAIRS = list(zip(TEXTS, FRENCH, strict=True))
TAGGED = [(tuple(t.split()), ("DET", "NOUN", "AUX", "ADJ")) for t in TEXTS]
DIALOGUE = ["Hi there.", "Hello.", "How are you?", "Fine."]
REPLIES = [
    ("user: Hi there.", "Hello."),
    ("user: Hi there. bot: Hello. user: How are you?", "Fine."),
]


def lines(rows, separator="\t"):
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def objects(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def conll(sentences, columns=lambda word, tag: f"{word}\t{tag}"):
    return "\n".join(
        lines(([columns(*pair)] for pair in zip(*sentence, strict=True)), "") for sentence in sentences
    )


def conllu(sentences):
    """With comments, a range of words and an empty node."""
    found = []
    for i, (words, tags) in enumerate(sentences):
        rows = [f"# sent_id = {i}", f"# text = {' '.join(words)}", "1-2\tthehat" + "\t_" * 8]
        for n, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
            rows.append(f"{n}\t{word}\t{word}\t{tag}\tX{tag}\t_\t0\troot\t_\tid={i}.{n}")
        rows.insert(5, "2.1\tgone\tgone\tVERB" + "\t_" * 6)
        found.append("\n".join(rows) + "\n")
    return "\n".join(found)


@dataclass
class Form:
    """A file, what is read of it, and the line that says how."""

    recipe: str
    file: str
    content: str | bytes
    examples: object
    says: str = ""
    flags: str = ""


LABELLED_CSV = "label,text\n" + "".join(f'{label},"{text}, ""so"""\n' for text, label in LABELLED)
SIZES = {
    "bert": TINY_BERT,
    "t5": ["--d-model", "16", "--num-heads", "2", "--d-kv", "8", "--d-ff", "32", "--num-layers", "1"],
    "shakespeare": TINY_GPT,
}


def train(form, *more):
    sizes = SIZES.get(form.recipe.partition("-")[0], TINY)
    every = ["--examples", "0"] if form.recipe in ("bert-classify", "bert-tag") else []
    argv = ["train", form.recipe, "--data", form.file, *form.flags.split(), "--run-dir", "run"]
    return main([*argv, *every, *sizes, "--steps", "2", "--warmup-steps", "1", *more])


def write(file, content):
    with open(file, "wb") as out:
        out.write(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


MRPC = lines([("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), *(("1", "7", "8", *p) for p in PAIRS)])
REFUSED = {  # the form, and its error: what is wrong, and the flag or the fix
    "a header or a label": Form(
        "bert-classify",
        "x.tsv",
        lines([("snippet", "mood"), *LABELLED]),
        r"line 1 may be a header: the labels are neg, pos, and 'mood' once.*\n.*--header.*--no-header",
    ),
    "a header of numbers": Form(
        "phrasebook", "x.tsv", lines([(1, 2), *PAIRS]), r"its columns are numbered.*\n.*--header"
    ),
    "a header that is not one": Form(
        "bert-classify",
        "x.tsv",
        lines(LABELLED),
        r"'neg' is the label of 14 other lines.*\n.*--no-header",
        flags="--header",
    ),
    "CSV, a header or data": Form(
        "bert-classify",
        "x.csv",
        lines(LABELLED, ","),
        r"header or data.*\n.*--header or --no-header; --columns 1,2 says",
    ),
    "CSV with commas in a text": Form(
        "bert-classify", "x.csv", "text,label\na, b,pos\n", r"line 2: 3 columns.*\n.*quotes"
    ),
    "CSV with an open quote": Form(
        "bert-classify", "x.csv", 'text,label\nx,pos\n"b,neg\n', r"line 3: not valid CSV.*\n.*quotes"
    ),
    "CSV with another name": Form(
        "bert-classify", "x.txt", lines(LABELLED, ","), r"no tab.*\n.*--format csv"
    ),
    "an index without a header": Form(
        "bert-classify",
        "x.tsv",
        lines((i, *e) for i, e in enumerate(LABELLED)),
        r"3 columns, expected text<TAB>label.*\n.*--columns 2,3",
    ),
    "the label first": Form(
        "bert-classify",
        "x.tsv",
        lines((b, a) for a, b in LABELLED),
        r"30 different labels.*\n.*--columns 2,1",
    ),
    "two columns that may be the text": Form(
        "bert-classify",
        "x.csv",
        "Class Index,Title,Description\n1,a,b\n2,c,d\n",
        r"may be a header.*\n.*--header",
    ),
    "the same, with --header": Form(
        "bert-classify",
        "x.csv",
        "Class Index,Title,Description\n1,a,b\n2,c,d\n",
        r"several columns may be the text; there are Class Index.*\n.*--columns Title,Class Index",
        flags="--header",
    ),
    "JSON without a label": Form(
        "bert-classify", "x.jsonl", objects({"text": "a", "id": 1}), r"no column.* the label.*\n.*--columns"
    ),
    "JSON that ends early": Form(
        "bert-classify",
        "x.jsonl",
        '{"text": "a", "label": 1}\n{"text":\n',
        r"line 2: not valid JSON.*\n.*object",
    ),
    "one file of two": Form(
        "phrasebook", "train.en", lines(zip(TEXTS)), r"no tab.*\n.*paste train.en OTHER > pairs.tsv"
    ),
    "two files": Form(
        "phrasebook",
        "train.en",
        lines(zip(TEXTS)),
        r"takes one file, got train.en and train.fr.*\n.*paste",
        flags="train.fr",
    ),
    "attributions": Form(
        "phrasebook", "x.tsv", lines((*p, "CC-BY") for p in PAIRS), r"3 columns.*\n.*--columns 1,2"
    ),
    "instructions": Form(
        "phrasebook",
        "x.jsonl",
        objects({"instruction": "a", "input": "b", "output": "c"}),
        r"several columns may be the source.*\n.*--columns instruction,output",
    ),
    "three speakers": Form(
        "dialogue",
        "x.jsonl",
        objects({"turns": [{"speaker": s, "text": "a"} for s in "abc"]}),
        r"found 3: .*\n.*two",
    ),
    "messages that are a text": Form(
        "dialogue",
        "x.jsonl",
        objects({"messages": DIALOGUE}, {"messages": "Good morning"}),
        r"line 2: expected a list of turns in messages, found 'Good morning'.*\n.*remove the object",
    ),
    "messages that are a number": Form(
        "dialogue",
        "x.jsonl",
        objects({"messages": DIALOGUE}, {"messages": 3}),
        r"line 2: expected a list of turns in messages, found '3'.*\n.*remove the object",
    ),
    "pairs with a judgement": Form(
        "bert-similar",
        "x.csv",
        "sentence1,sentence2,score\na b,a c,5.0\n",
        r"column score says which pairs mean the same.*\n.*--columns sentence1,sentence2",
    ),
    "MRPC": Form("bert-similar", "x.tsv", MRPC, r"may be a header: 'Quality' is.*\n.*--header"),
    "a word with a space": Form(
        "bert-tag",
        "x.conll",
        "the\tO\nNew York\tB-X\n",
        r"line 2: a word contains a space: 'New York'.*\n.*line",
    ),
    "a word too many": Form(
        "bert-tag",
        "x.conll",
        "the O\nin O\nNew York B-X\n",
        r"line 3 has 3 columns, most have 2.*\n.*--columns 1,2",
    ),
    "a column that is no tag": Form(
        "bert-tag",
        "x.conll",
        conll([((f"w{i}",), (f"id={i}",)) for i in range(60)]),
        r"60 different tags of 60 words.*\n.*--columns",
    ),
    "CoNLL-U without parts of speech": Form(
        "bert-tag",
        "x.conllu",
        conllu([(("a", "b"), ("_", "_"))]),
        r"column upos is empty.*\n.*--columns form,xpos",
    ),
    "CoNLL-U's unknown column": Form(
        "bert-tag", "x.conllu", conllu(TAGGED), r"no column 'pos'.*\n.*form,xpos", flags="--columns form,pos"
    ),
    "tags in CSV": Form(
        "bert-tag", "ner.csv", "Word,Tag\nthe,O\n", r"is CSV, which this task does not read.*\n.*word<TAB>tag"
    ),
    "CoNLL-U as sentences": Form(
        "bert-mlm", "x.conllu", conllu(TAGGED), r"is CoNLL-U.*\n.*a text on each line; --format plain"
    ),
    "a list with a header": Form(
        "bert-mlm", "x.txt", lines([("text",), *zip(TEXTS)]), r"line 1 may be a header: text.*\n.*--header"
    ),
    "Latin-1": Form(
        "phrasebook",
        "x.tsv",
        "caf\xe9\tcoffee\n".encode("latin-1"),
        r"line 1: not UTF-8.*\n.*iconv -f LATIN1",
    ),
    "UTF-16": Form(
        "phrasebook", "x.tsv", "café\tcoffee\n".encode("utf-16"), r"is UTF-16.*\n.*iconv -f UTF-16"
    ),
    "UTF-16 without a mark": Form(
        "phrasebook", "x.tsv", "café\tcoffee\n".encode("utf-16-le"), r"not UTF-8.*\n.*UTF-8"
    ),
    "gzip": Form(
        "shakespeare-char-cpu",
        "x.txt.gz",
        gzip.compress(b"a" * 200),
        r"compressed \(gzip\).*\n.*gunzip -k x.txt.gz",
    ),
    "a spreadsheet": Form(
        "bert-classify",
        "x.xlsx",
        b"PK\x03\x04" + bytes(100),
        r"compressed \(zip\).*\n.*spreadsheet, save it as CSV",
    ),
    "half of a surrogate pair": Form(
        "bert-classify",
        "x.jsonl",
        b'{"label": "a", "text": "one \\ud83d two"}\n' * 20,
        r"line 1: not valid JSON: .*surrogates not allowed",
    ),
    "an unknown format": Form(
        "bert-classify", "x.tsv", lines(LABELLED), r"unknown format 'xml'.*\n.*tsv", flags="--format xml"
    ),
}


# ---------------------------------------------------------------- what looks wrong is said


@pytest.mark.parametrize(
    ("read", "content", "warning"),
    [
        (read_labelled, [*LABELLED, ("a", "poss")], r"labels that occur once: 'poss' \(line 31\)"),
        (read_labelled, [*LABELLED, ("a", "Pos"), ("b", "Pos")], r"differ in capitals.*: 'pos', 'Pos'"),
        (read_labelled, [(f'"{a}"', b) for a, b in LABELLED], r"all of column 1 is in quotes.*--format csv"),
        (
            read_pairs,
            [("id", "en", "fr"), (1, "a", "b"), (1, "c", "d")],
            r"1 value occurs more than once in id",
        ),
        (read_documents, PAIRS, r"every line has 1 tab.*--columns 1"),
        (read_tagged, [("a\tx", "O"), ("b", "O"), ("c\tx", "O")], r"line 2 has 2 columns, most have 3"),
    ],
)
def test_what_looks_wrong_is_said(folder, read, content, warning):
    write("mine.txt", lines(content))
    notes = read("mine.txt").notes
    assert any(re.search(f"warning: mine.txt: .*{warning}", note) for note in notes), notes


def test_dialogues_without_a_reply_are_counted(folder):
    write("one.jsonl", objects({"messages": DIALOGUE}, {"id": 3}))
    write(
        "four.jsonl",
        objects({"messages": DIALOGUE}, {"id": 3}, *({"messages": x} for x in (None, [], ["Hi"]))),
    )
    for file, said in (
        ("one.jsonl", "1 object without a reply in messages is left out"),
        ("four.jsonl", "4 objects without a reply in messages are left out"),
    ):
        pairs = read_pairs(file)
        assert list(pairs) == REPLIES
        assert f"warning: {file}: {said}" in pairs.notes
    write("open.jsonl", objects({"messages": DIALOGUE}, {"messages": [*DIALOGUE, "Why?"]}))
    assert "warning: open.jsonl: 1 last turn without a reply is left out" in read_pairs("open.jsonl").notes
    write("all.jsonl", objects({"messages": DIALOGUE}))
    assert not any("left out" in note or "not read" in note for note in read_pairs("all.jsonl").notes)


def test_one_system_message_is_one(folder):
    write("x.jsonl", objects({"messages": [{"role": "system", "content": "Be kind."}, *DIALOGUE]}))
    assert "warning: x.jsonl: 1 system message is not read" in read_pairs("x.jsonl").notes


@pytest.mark.parametrize(
    ("speakers", "is_read"),
    [
        (("Anna", "Bob"), True),
        (("Anna", "bot"), True),
        (("human", "Anna"), True),
        (("Anna", "human"), False),  # Anna is the bot, and cannot begin
        (("bot", "Anna"), False),
    ],
)
def test_known_speakers_have_their_roles_whoever_begins(folder, speakers, is_read):
    turns = [
        {"speaker": speaker, "text": text} for speaker, text in zip(speakers, ("Hi.", "Hello."), strict=True)
    ]
    write("x.jsonl", objects({"turns": turns}))
    if is_read:
        assert list(read_pairs("x.jsonl")) == [("user: Hi.", "Hello.")]
    else:
        with pytest.raises(UserError, match=r"the dialogue starts with a reply: 'Hi\.'"):
            read_pairs("x.jsonl")


ARTICLE = {"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": [{"text": "a"}]}]}]}


@pytest.mark.parametrize(
    ("article", "problem"),
    [
        (3, "expected an object, found 3"),
        (None, "expected an object, found null"),
        ({"title": "x"}, "expected a list as paragraphs, found null"),
        ({"paragraphs": {}}, "expected a list as paragraphs, found {}"),
        ({"paragraphs": ["a"]}, 'expected an object, found "a"'),
        ({"paragraphs": [{"context": "a"}]}, "expected a list as qas, found null"),
        ({"paragraphs": [{"context": "a", "qas": None}]}, "expected a list as qas, found null"),
        ({"paragraphs": [{"context": "a", "qas": "b"}]}, 'expected a list as qas, found "b"'),
        ({"paragraphs": [{"context": "a", "qas": ["b"]}]}, 'expected an object, found "b"'),
    ],
)
def test_squad_of_another_shape_is_refused_with_its_object(folder, article, problem):
    write("x.json", json.dumps([ARTICLE, article]))
    with pytest.raises(UserError) as error:
        read_answered("x.json")
    first, second = str(error.value).splitlines()
    assert first == f"x.json, object 2: {problem}."
    assert second.startswith("Write SQuAD's form")


@pytest.mark.parametrize(("content", "place"), [('[{"text": "a"}, 5]', 2), ('{"data": [[]]}', 1)])
def test_objects_of_a_list_are_counted_from_1(folder, content, place):
    write("x.json", content)
    with pytest.raises(UserError, match=f"x.json, object {place}: expected an object"):
        read_labelled("x.json")


def test_semicolons_between_quoted_cells_are_found(folder):
    write("x.csv", '"text";"label"\n"a, b";"c"\n"d";"e";""\n')  # one line with a semicolon too many
    assert list(read_labelled("x.csv")) == [("a, b", "c"), ("d", "e")]


def test_a_csv_cell_may_be_long_and_csv_keeps_its_limit(folder):
    limit = csv.field_size_limit()
    long = "word " * 40_000
    write("x.csv", f'text,label\n"{long}",pos\nshort,neg\n')
    assert list(read_labelled("x.csv")) == [(long.strip(), "pos"), ("short", "neg")]
    write("open.csv", f'text,label\nshort,neg\n"{long},pos\n')
    with pytest.raises(UserError, match="line 3: not valid CSV: unexpected end of data"):
        read_labelled("open.csv")
    assert csv.field_size_limit() == limit


def test_labels_that_are_numbers_are_not_alike(folder):
    numbers = ("-1", "0", "1", "1.0", "10")
    write("x.tsv", lines((text, numbers[i % 5]) for i, text in enumerate(TEXTS)))
    assert not any("differ in" in note for note in read_labelled("x.tsv").notes)


@pytest.mark.parametrize(
    ("labels", "several"),
    [
        (("0", "3", "0,3"), "'0,3' (10)"),
        (("joy", "anger; joy"), "'anger; joy' (15)"),
        (("a|b", "b|c", "a|b|c", "a|c"), "'a|b' (8), 'b|c' (8), 'a|b|c' (7), 'a|c' (7)"),
        (("sad", "happy"), ""),
        (("Paris, France", "Rome, Italy", "Nice, France"), ""),
        (("food, drinks", "travel"), ""),
        ((",", ";", "NN"), ""),
    ],
)
def test_labels_that_may_be_several_are_named(folder, labels, several):
    write("x.tsv", lines((text, labels[i % len(labels)]) for i, text in enumerate(TEXTS)))
    found = [note for note in read_labelled("x.tsv").notes if "several" in note]
    start = f"warning: x.tsv: labels that look like several labels: {several}; each is learned as one class"
    assert [note[: len(start)] for note in found] == [start][: bool(several)]


@pytest.mark.slow
def test_labels_are_counted_before_training(folder, capsys):
    write("mine.tsv", lines(LABELLED))
    assert train(Form("bert-classify", "mine.tsv", "", [])) == 0
    before_training, _ = capsys.readouterr().err.split("2 steps")
    assert "mine.tsv: labels: neg (15), pos (15)\n" in before_training


def test_a_line_that_all_others_contradict_is_not_a_header(folder):
    """The first lines here are data, though they have a label or an answer of their own."""
    write("mine.tsv", lines([("a", "x"), ("b", "y"), ("c", "y")]))
    assert len(read_labelled("mine.tsv")) == 3
    write("mine.tsv", lines([("no", "non"), ("yes", "oui")]))
    assert len(read_pairs("mine.tsv")) == 2
    write("mine.tsv", lines([(1, 2), (3, 4)]))
    assert len(read_pairs("mine.tsv")) == 2


@pytest.mark.slow
def test_each_file_of_a_run_is_read_for_what_it_is(folder, capsys):
    write("train.csv", LABELLED_CSV)
    write("dev.tsv", lines([("sentence", "label"), *LABELLED[:6]]))
    write("test.jsonl", objects(*({"text": a, "label": b} for a, b in LABELLED[6:10])))
    form = Form("bert-classify", "train.csv", "", [])
    assert train(form, "--validation-data", "dev.tsv", "--test-data", "test.jsonl") == 0
    said = capsys.readouterr().err
    assert "dev.tsv: TSV with a header: sentence as text, label" in said
    assert "test.jsonl: JSON lines: text, label" in said
    splits = Run("run").splits()
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [30, 6, 4]


@pytest.mark.slow
def test_a_run_is_evaluated_on_a_file_of_another_form(folder, capsys):
    write("mine.tsv", lines(LABELLED))
    assert train(Form("bert-classify", "mine.tsv", "", [])) == 0
    write("other.csv", lines([("mood", "snippet"), *((b, f"{a} again") for a, b in LABELLED)], ","))
    evaluate = ["evaluate", "run", "--json", "--data", "other.csv"]
    for flags, problem in {(): "--header or --no-header", ("--header",): "30 different labels"}.items():
        capsys.readouterr()
        assert main([*evaluate, *flags]) == 2
        assert problem in capsys.readouterr().err
    assert main([*evaluate, "--columns", "snippet,mood"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["n"] == 30
    assert "other.csv: CSV with a header: snippet as text, mood as label" in err


@pytest.mark.slow
def test_the_flags_are_keys_of_a_recipe(folder, capsys):
    write("mine.tsv", lines([("snippet", "mood"), *LABELLED]))
    recipe = 'task = "classification"\n[data]\ndataset = "file"\n{}\n[model]\nhead = "classification"\n'
    write("bert-right.toml", recipe.format("header = true"))
    write("bert-wrong.toml", recipe.format('header = "yes"'))
    form = Form("bert-right.toml", "mine.tsv", "", [])
    assert train(form) == 0
    written = tomllib.loads((folder / "run" / "config.toml").read_text())["data"]
    assert (written["format"], written["header"], written["columns"]) == ("auto", True, "")
    assert sum(map(len, Run("run").splits().values())) == 30
    capsys.readouterr()
    assert train(replace(form, recipe="bert-wrong.toml"), "--overwrite") == 2
    assert "header must be True or False or None, got 'yes'" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [{"format": "xml"}, {"columns": "1,,2"}])
def test_settings_without_a_meaning_are_refused(settings):
    with pytest.raises(UserError, match=r"unknown format|empty name"):
        FileFormat(**settings)
    with pytest.raises(UserError, match=r"unknown format|empty name"):
        Classification.Data(**settings)


def test_plain_takes_every_line(folder):
    plain = FileFormat("plain")
    write("mine.tsv", lines([("sentence", "label"), *LABELLED]))
    assert read_labelled("mine.tsv", plain)[0] == ("sentence", "label")
    write("mine.conllu", conllu(TAGGED[:1]))
    assert read_tagged("mine.conllu", plain)[0].words[:2] == ("#", "#")
    write("mine.jsonl", objects(*({"text": text} for text in TEXTS)))
    assert read_long_text("mine.jsonl", plain).startswith('{"text"')


# ---------------------------------------------------------------- runs that exist


def as_older(run):
    """Make a run of one that was trained on every line, by a version without these settings."""
    record = folders.read_record(run)
    config = run / "config.toml"
    kept = [line for line in config.read_text().splitlines() if not re.match("format|header|columns", line)]
    config.write_text("\n".join(kept) + "\n")
    first = {**record.history[0], "config_sha256": sha256(config.read_bytes())}
    folders._write_record(run, replace(record, history=[first]))


# ---------------------------------------------------------------- what is left out, or is no data


@pytest.mark.slow
def test_texts_that_are_not_trained_on_are_said(folder, capsys):
    write("all.tsv", lines(LABELLED))
    flags = ["--steps", "1", "--examples", "20", "--run-dir", "run", *TINY_BERT]
    assert main(["train", "bert-classify", "--data", "all.tsv", *flags]) == 0
    said = capsys.readouterr().err
    assert re.search(r"training on only 20 of \d+ texts \(--examples 20; 0 is all\)", said), said


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (read_pairs, [("en", "fr"), *PAIRS, ("en", "fr"), *PAIRS]),
        (read_labelled, [("text", "label"), *LABELLED, ("text", "label")]),
        (read_tagged, [("token", "pos"), ("the", "DET"), ("hat", "NOUN"), ("token", "pos"), ("a", "DET")]),
    ],
)
def test_a_header_that_stands_twice_is_refused(folder, read, content):
    write("joined.tsv", lines(content))
    with pytest.raises(UserError, match=r"line \d+ repeats the header"):
        read("joined.tsv")


def test_answers_in_csv_are_where_their_positions_say(folder):
    with open("qa.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "context", "answer", "answer_start"])
        writer.writerow(["who ?", "  a cat and a cat", "cat", 14])
    (example,) = read_answered("qa.csv")
    assert (example.context, example.start) == ("a cat and a cat", 12)


def answered(**fields):
    return {"question": "who ?", "context": "the cat and a dog", **fields}


@pytest.mark.parametrize(
    "content",
    [
        objects(answered(answers={"text": ["cat", "the cat", "cat"], "answer_start": [4, 0, 4]})),
        objects(answered(answers=[{"text": t, "answer_start": i} for t, i in (("cat", 4), ("the cat", 0))])),
        objects(answered(answer=["cat", "the cat", ""], answer_start=[4, 0, 0])),
    ],
)
def test_all_right_answers_of_a_question_are_read(folder, content):
    write("qa.jsonl", content)
    (example,) = read_answered("qa.jsonl")
    assert right_answers(example) == ("cat", "the cat")
    assert (example.answer, example.start) == ("cat", 4)  # which is learned


def test_a_question_with_one_right_answer_is_read_as_before(folder):
    write("qa.jsonl", objects(answered(answers={"text": ["cat", "cat"], "answer_start": [4, 4]})))
    assert list(read_answered("qa.jsonl")) == [("who ?", "the cat and a dog", "cat", 4)]


def test_a_system_that_replies_is_the_bot(folder):
    speakers = ("USER", "SYSTEM", "USER", "SYSTEM")
    turns = [{"speaker": who, "utterance": said} for who, said in zip(speakers, DIALOGUE, strict=True)]
    write("woz.jsonl", objects({"turns": turns}))
    assert list(read_pairs("woz.jsonl")) == REPLIES


def test_labels_of_json_are_what_they_mean(folder):
    rows = [{"text": text, "label": 1 if i % 2 else 1.0 if i % 4 else 0} for i, text in enumerate(TEXTS)]
    write("n.jsonl", objects(*rows))
    assert {label for _, label in read_labelled("n.jsonl")} == {"0", "1"}
    write("nan.jsonl", objects({"text": "a", "label": "x"}) + '{"text": "b", "label": NaN}\n')
    with pytest.raises(UserError, match="label is missing or empty"):
        read_labelled("nan.jsonl")
    write("cafe.tsv", lines([*LABELLED, *[("a", "caf\u00e9"), ("b", "cafe\u0301")] * 2]))
    assert any("differ in capitals" in note for note in read_labelled("cafe.tsv").notes)


def test_a_tsv_file_with_quotes_of_csv_is_said(folder):
    write("quotes.tsv", lines([*LABELLED, ('"He said ""no 1"""', "pos")]))
    assert any("quotes" in note for note in read_labelled("quotes.tsv").notes)


def test_a_column_has_one_role(folder):
    write("x.csv", lines([("text", "label"), *LABELLED], ","))
    with pytest.raises(UserError, match=r"names a column twice"):
        read_labelled("x.csv", FileFormat(columns="text,text"))
