"""Data files in the forms that others publish: each is read for what it is, or refused before training, with
the flag or the fix."""

import gzip
import json
import re
import tomllib
from functools import partial

import pytest

from minitransformer.cli import main
from minitransformer.data.labels import (
    read_answered,
    read_documents,
    read_labelled,
    read_tagged,
)
from minitransformer.data.rows import FileFormat, read_noted_text, read_pairs, read_prefixed, read_texts
from minitransformer.errors import UserError
from minitransformer.runs.run import Run
from tests.tiny import TINY_BERT

similar = partial(read_pairs, same_meaning=True)
LABELLED = [(f"the {noun} is {word}", label) for noun in ("hat", "cat", "dog") for word, label in
            (("red", "neg"), ("old", "pos"), ("new", "neg"), ("big", "pos"))]  # fmt: skip
PAIRS = [("a hat", "un chapeau"), ("a cat", "un chat")]
TAGGED = [(("the", "hat"), ("O", "B-X")), (("a", "cat"), ("O", "B-X"))]
ANSWERED = [("who ?", "the cat and a dog", "cat", 4, ())]
REPLIES = [("user: Hi.", "Hello."), ("user: Hi. bot: Hello. user: You?", "Fine.")]
TURNS = ["Hi.", "Hello.", "You?", "Fine."]
LONG = ["the hat is red and old"] * 6


def table(*rows, tab="\t"):
    return "".join(tab.join(map(str, row)) + "\n" for row in rows)


def objects(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def conll(line="{0}\t{1}"):
    return "\n".join(
        "".join(line.format(*pair) + "\n" for pair in zip(*each, strict=True)) for each in TAGGED
    )


CONLLU = "# text = the hat\n1-2\tthehat" + "\t_" * 8 + "\n" + "\n".join(
    "\n".join(f"{n}\t{w}\t{w}\t{t}\tX{t}" + "\t_" * 5 for n, (w, t) in enumerate(zip(*each, strict=True),
        1)) + "\n"
    for each in TAGGED
)  # fmt: skip
CHAT = {"messages": [{"role": "system", "content": "Be kind."}] + [
    {"role": ("user", "assistant")[i % 2], "content": said} for i, said in enumerate(TURNS)]}  # fmt: skip
QA = {"question": "who ?", "context": "the cat and a dog"}
SQUAD = {"data": [{"paragraphs": [{"context": QA["context"], "qas": [
    {"question": "who ?", "answers": [{"text": "cat", "answer_start": 4}]}, {"question": "why ?",
        "answers": []}
]}]}]}  # fmt: skip

READ = {  # name: how it is read, file, content, flags, examples, and how the note on it ends
    "SST-2": (read_labelled, "train.tsv", table(("sentence", "label"), *LABELLED), {}, LABELLED,
        "train.tsv: TSV with a header: sentence as text, label"),
    "a header of unknown names": (read_labelled, "x.tsv", table(("snippet", "mood"), *LABELLED),
        {"columns": "snippet,mood"}, LABELLED, "snippet as text, mood as label"),
    "GLUE with an index": (read_labelled, "x.tsv", table(("index", "sentence", "label"),
        *((i, *each) for i, each in enumerate(LABELLED))), {}, LABELLED, "not read: index"),
    "CoLA, without a header": (read_labelled, "x.tsv", table(*(("gj04", b, "*", a) for a, b in LABELLED)),
        {"columns": "4,2"}, LABELLED, "column 4 as text, column 2 as label"),
    "CSV with quotes and a header": (read_labelled, "x.csv", 'label,text\npos,"a, ""so"""\n', {},
        [('a, "so"', "pos")], "CSV with a header: text, label"),
    "CSV with semicolons, of pandas": (read_labelled, "x.csv", ";text;label\n0;a, b;pos\n", {},
        [("a, b", "pos")], "CSV with semicolons with a header: text, label; not read: column 1"),
    "CSV of Excel, with its separator": (read_labelled, "x.csv", 'sep=;\ntext;label\n"a; b";"c, d"\ne;f;\n',
        {}, [("a; b", "c, d"), ("e", "f")], "CSV with semicolons with a header: text, label"),
    "CSV without a header": (read_labelled, "x.csv", table(*LABELLED, tab=","), {"header": False}, LABELLED,
        ""),
    "a long cell of CSV": (read_labelled, "x.csv", f"text,label\n{'a' * 200_000},b\n", {}, [("a" * 200_000,
        "b")], ""),
    "JSON lines": (read_labelled, "x.jsonl", objects({"idx": 0, "text": "a", "label": 1.0}), {}, [("a", "1")],
        "JSON lines: text, label; not read: idx"),
    "JSON lines with another name": (read_labelled, "x.json", objects({"text": "a", "label": 1}) * 2, {},
        [("a", "1")] * 2, "JSON: text, label"),
    "TREC": (read_labelled, "train_5500.label", "HUM:ind Who is it ?\nDESC:def What ?\n", {"format": "trec"},
        [("Who is it ?", "HUM"), ("What ?", "DESC")], "TREC's format: text, label; not read: fine"),
    "fastText": (read_labelled, "x.txt", "__label__a b c\n", {"format": "fasttext"}, [("b c", "a")],
        "fastText's format: text, label"),
    "names with a label first": (read_labelled, "x.tsv", table(*((b, a) for a, b in LABELLED)),
        {"columns": "2,1"}, LABELLED, "column 2 as text, column 1 as label"),
    "columns that are joined": (read_labelled, "x.csv", "Class Index,Title,Description\n1,a,b\n2,,d\n",
        {"columns": "Title+Description,Class Index"}, [("a b", "1"), ("d", "2")],
        "Title+Description as text, Class Index as label"),
    "Windows, with a byte-order mark": (read_labelled, "x.tsv", b"\xef\xbb\xbfa\tb\t\r\nc\td\t\r\n", {},
        [("a", "b"), ("c", "d")], ""),
    "CoNLL-2003": (read_tagged, "eng.train", "-DOCSTART- -X- -X- O\n\n" + conll("{0} NN B-NP {1}"),
        {"columns": "1,4"}, TAGGED, "column 1 as word, column 4 as tag"),
    "CoNLL with spaces and tabs": (read_tagged, "x.txt", "-DOCSTART- O\n\nEU B-ORG\nin O\n\nTom\tB-PER\n", {},
        [(("EU", "in"), ("B-ORG", "O")), (("Tom",), ("B-PER",))], ""),
    "CoNLL, by its extension": (read_tagged, "x.conll", conll("{0} NN B-NP {1}"), {}, TAGGED,
        "x.conll: CoNLL: column 1 as word, column 4 as tag"),
    "CoNLL of ten columns": (read_tagged, "x.conll", "-DOCSTART- O\n\n" + conll("{0}\t{1}" + "\t_" * 8),
        {"columns": "1,2"}, TAGGED, "column 1 as word, column 2 as tag"),
    "CoNLL-2003's parts of speech": (read_tagged, "x.txt", "-DOCSTART- -X- O O\n\n" + conll("{0} {1} B-NP O"),
        {"columns": "1,2"}, TAGGED, "column 1 as word, column 2 as tag"),
    "CoNLL with comments and a header": (read_tagged, "wnut.conll", "Word\tTag\n\n# id 1\n" + conll(), {},
        TAGGED, "wnut.conll: CoNLL with a header: word, tag"),
    "GermEval 2014": (read_tagged, "x.tsv", "#\thttp://x [2009]\n" + conll("1\t{0}\t{1}\tO"),
        {"columns": "2,3"}, TAGGED, "column 2 as word, column 3 as tag"),
    "CoNLL-U": (read_tagged, "x.conllu", CONLLU, {}, TAGGED,
        "form as word, upos as tag; not read: id, lemma, xpos, feats, head, deprel, deps, misc"),
    "CoNLL-U, of another column": (read_tagged, "x.txt", CONLLU, {"format": "conllu", "columns": "form,xpos"},
        [(words, tuple(f"X{tag}" for tag in tags)) for words, tags in TAGGED],
        "form as word, xpos as tag; not read: id, lemma, upos, feats, head, deprel, deps, misc"),
    "JSON lines of tokens": (read_tagged, "x.jsonl", objects(*({"tokens": w, "ner_tags": t} for w,
        t in TAGGED)), {}, TAGGED, "tokens as word, ner_tags as tag"),
    "SQuAD": (read_answered, "train-v2.0.json", json.dumps(SQUAD), {}, ANSWERED,
        "questions without an answer, left out: 1"),
    "SQuAD as JSON lines": (read_answered, "x.jsonl", objects(QA | {"answers": {"text": ["cat"],
        "answer_start":
        [4]}}), {}, ANSWERED, "question, context, answers.text as answer, answers.answer_start as start"),
    "questions": (read_answered, "x.tsv", "who ?\ta cat\tcat\n", {},
        [("who ?", "a cat", "cat", None, ())], ""),
    "questions with a header": (read_answered, "qa.csv",
        'context,question,answer,answer_start\n"  a cat, a cat",'
        "who ?,cat,11\n", {}, [("who ?", "a cat, a cat", "cat", 9, ())],
        "CSV with a header: question, context, answer, answer_start as start"),
    "parallel text with languages": (read_pairs, "en-fr.tsv", table(("en", "fr"), *PAIRS), {}, PAIRS,
        "en as source, fr as target"),
    "a first row that may be a header": (read_pairs, "x.tsv", table(("Englisch", "Deutsch"), *PAIRS), {},
        [("Englisch", "Deutsch"), *PAIRS],
        "x.tsv: the first row has source 'Englisch', target 'Deutsch'; if it is a header, pass --header"),
    "Tatoeba, with attributions": (read_pairs, "fra.txt", table(*((*pair, "CC-BY") for pair in PAIRS)),
        {"columns": "1,2"}, PAIRS, "column 1 as source, column 2 as target"),
    "JSON lines of translations": (read_pairs, "x.jsonl", objects(*({"id": 1, "translation": {"en": a,
        "fr": b}}
        for a, b in PAIRS)), {}, PAIRS, "translation.en as source, translation.fr as target; not read: id"),
    "pairs between blank lines, of Windows": (read_pairs, "x.tsv",
        b"\xef\xbb\xbfa.\tb.\r\n\r\n  \r\nc\td\r\n", {}, [("a.", "b."), ("c", "d")], ""),
    "the other direction": (read_pairs, "x.jsonl", objects(*({"translation": {"en": b, "fr": a}}
        for a, b in PAIRS)), {"columns": "fr,en"}, PAIRS, ""),
    "summaries": (read_pairs, "samsum.json", json.dumps([{"id": "1", "dialogue": "A: a\r\nB: b",
        "summary": "c"}]),
        {}, [("A: a  B: b", "c")], "JSON: dialogue as source, summary as target; not read: id"),
    "Alpaca": (read_pairs, "alpaca.json", json.dumps([{"instruction": "Say", "input": i, "output": "o"}
        for i in ("it", "")]), {"columns": "instruction+input,output"}, [("Say it", "o"), ("Say", "o")],
        "instruction+input as source, output as target"),
    "chat messages": (read_pairs, "x.jsonl", objects(CHAT), {}, REPLIES,
        "messages of the system that are not read: 1"),
    "chat, an object without a reply": (read_pairs, "x.jsonl", objects(CHAT, {"messages": ["Hi"]}, {"id": 1}),
        {}, REPLIES, "objects without a reply, which are left out: 2"),
    "utterances": (read_pairs, "x.jsonl", objects({"dialog": TURNS}), {}, REPLIES,
        "--test-data keep them apart"),
    "prefixed pairs": (read_prefixed, "x.jsonl", objects({"input": "negate: a", "target": "b"}), {},
        [("negate: a", "b")], "input as source, target"),
    "paraphrases": (similar, "quora.csv", table(("id", "question1", "question2"), (1, "a", "b"), tab=","), {},
        [("a", "b")], "question1 as source, question2 as target; not read: id"),
    "names": (read_noted_text, "names.txt", "\n".join(LONG), {}, "\n".join(LONG), ""),
    "a column of texts": (read_noted_text, "names.csv", table(("name", "n"), *((t, 1) for t in LONG),
        tab=","), {}, "".join(f"{t}\n" for t in LONG), "name as text; not read: n"),
    "documents": (read_documents, "x.txt", "One.\nTwo.\n\nThree.\n", {}, [["One.", "Two."], ["Three."]], ""),
    "JSON lines of texts": (read_documents, "c4.jsonl", objects({"text": "a", "url": "x"}), {}, [["a"]],
        "JSON lines: text; not read: url"),
    "a column to denoise": (read_texts, "x.tsv", table(("id", "text"), (1, "a")), {}, ["a"],
        "TSV with a header: text; not read: id"),
    "a text with what may be a header": (read_texts, "x.txt", "text\na\n", {}, ["text", "a"],
        "pass --header"),
    "a text with tabs": (read_texts, "x.txt", "a\tb\n", {}, ["a\tb"], "--columns 1 reads the first"),
    "a text with a header": (read_texts, "x.txt", "text\na\n", {"header": True}, ["a"],
        "without its header, text"),
    "plain lines": (read_labelled, "x.jsonl", '{"sentence"\tlabel\n', {"format": "plain"}, [('{"sentence"',
        "label")], ""),
    "plain words": (read_tagged, "x.conllu", "# b\n1\tc\td\n", {"format": "plain"}, [(("#", "1"), ("b",
        "d"))], ""),
    "rows that are left out": (read_pairs, "x.tsv", "a\tb\nc\n\nd\te\nf\t\n", {"skip_bad_rows": True},
        [("a", "b"), ("d", "e")],
        "2 rows are left out; x.tsv, line 2: expected source<TAB>target, found no tab: 'c'"),
    "labels that may be several": (read_labelled, "x.tsv", "a\t0\nb\t3\nc\t0,3\n", {},
        [("a", "0"), ("b", "3"), ("c", "0,3")], "if that is not meant, write only one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_file_formats_are_detected(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    read, file, content, flags, examples, note = READ[name]
    write(file, content)
    found = read(file, how=FileFormat(**flags))
    texts, notes = found if read is read_noted_text else (list(found), found.notes)
    assert texts == examples
    assert (
        any(each.endswith(note) for each in notes) if note else not any("warning" in each for each in notes)
    )


def write(file, content):
    with open(file, "wb") as out:
        out.write(content if isinstance(content, bytes) else content.encode())


THREE = r"\n  line 1: .*\n  line 2: .*\n  line 3: .*\n"
MRPC = table(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), *([1, 7, 8, *pair] for pair in PAIRS))
REFUSED = {  # name: how it is read, file, content, flags, and the error with the flag or the fix
    "a header or a label": (read_labelled, "x.tsv", table(("snippet", "mood"), *LABELLED), {},
        rf"the labels are neg, pos, but the first row has 'mood':{THREE}"
        r"Say .*--columns 1,2 .*--header.*--no-header"),
    "unknown names": (read_labelled, "x.tsv", table(("snippet", "mood"), *LABELLED), {"header": True},
        r"which column is the text; there are snippet, mood:\n.*\n.*\n.*\n.*--columns snippet,mood"),
    "CSV with a header of unknown names": (read_labelled, "x.csv", "Satz;Etikett\na, b;pos\n", {},
        r"may start with a header, because most CSV files do:\n.*'Satz' \| 2='Etikett'\n(.*\n)*.*--header"),
    "CSV, a header or data": (read_labelled, "x.csv", table(*LABELLED, tab=","), {},
        rf"may start with a header.*:{THREE}Say .*--columns 1,2 .*--header.*--no-header"),
    "CSV with an open quote": (read_labelled, "x.csv", 'text,label\nx,pos\n"b,neg\n', {},
        r"line 3: not valid CSV.*\n.*quotes"),
    "CSV with another name": (read_labelled, "x.txt", table(*LABELLED, tab=","), {},
        r"no tab.*\n.*--format csv"),
    "TREC": (read_labelled, "x.label", "HUM:ind Who is it ?\n", {}, r"no tab.*\n.*--format .*trec"),
    "fastText": (read_labelled, "x.txt", "__label__a b c\n", {}, r"no tab.*\n.*--format .*fasttext"),
    "fastText with two labels": (read_labelled, "x.txt", "__label__a __label__b c\n", {"format": "fasttext"},
        r"line 1: not fastText's format"),
    "an index without a header": (read_labelled, "x.tsv", table(*((i, *e) for i, e in enumerate(LABELLED))),
        {}, rf"has 3 columns, expected text<TAB>label:{THREE}.*--columns 2,3"),
    "the label first": (read_labelled, "x.tsv", table(*((b, a) for a, b in LABELLED)), {},
        r"12 different labels.*\n.*--columns 2,1"),
    "several texts": (read_labelled, "x.csv", "Class Index,Title,Description\n1,a,b\n", {},
        r"which column is the text; there are Class.*:\n.*\n.*--columns 'Title\+Description,Class Index'"),
    "a column twice": (read_labelled, "x.csv", "text,label\na,b\n", {"columns": "text,text"},
        "needs 2 different columns, got --columns text,text"),
    "a column that is not there": (read_labelled, "x.csv", "text,label\na,b\n", {"columns": "txet,label"},
        r"no column 'txet':\n.*text='a'.*\nSay "),
    "JSON without a label": (read_labelled, "x.jsonl", objects({"text": "a", "id": 1}), {},
        r"which column is the label.*\n.*\n.*--columns"),
    "JSON that is not objects": (read_labelled, "x.json", '[{"text": "a", "label": "b"}, 5]', {},
        "x.json, object 2: expected an object, found 5"),
    "half of a surrogate pair": (read_labelled, "x.jsonl", '{"label": "a", "text": "\\ud83d"}\n', {},
        r"line 1: not valid JSON: .*surrogates not allowed"),
    "NaN": (read_labelled, "x.jsonl", '{"text": "b", "label": NaN}\n', {}, "label is missing or empty"),
    "two files that are joined": (read_pairs, "x.tsv", table(("en", "fr"), *PAIRS, ("en", "fr")), {},
        r"line 4: repeats the header.*\n.*--skip-bad-rows"),
    "bad rows": (read_pairs, "x.tsv", table(("a", "b"), *[["c"], ["d", ""], ["e", "f", "g"]] * 4), {},
        r"^x.tsv: 12 of 13 rows cannot be used:\n  x.tsv, line 2: .*no tab: 'c'\n.*line 3: .*empty: 'd \| '\n"
        r".*line 4: .*3 columns(.*\n){8}  and 2 more\nFix them, or leave them out with --skip-bad-rows."),
    "an empty source": (read_pairs, "x.tsv", "a\tb\n\n\tc\n", {},
        "x.tsv, line 3: the source is missing or empty"),
    "no pairs": (read_pairs, "x.tsv", b"\xef\xbb\xbf\n \n", {}, "has no examples"),
    "no documents": (read_documents, "x.txt", "\n\n", {}, "has no sentences"),
    "no prefix": (read_prefixed, "x.tsv", "ask: a\tb\nA dog\tb\n", {},
        r"line 2: expected a prefix before the source.*'A dog'"),
    "quotes in TSV": (read_pairs, "x.tsv", table(*((f'"{a}"', b) for a, b in PAIRS)), {},
        r"line 1 has a cell in quotes.*\nPass --format csv .*--format tsv"),
    "one cell in quotes": (read_pairs, "x.tsv", 'a\tb\n"c ""d"""\te\n', {}, r"line 2 has a cell in quotes"),
    "one file of two": (read_pairs, "train.en", "a\nb\n", {},
        r"no tab.*\n.*paste train.en OTHER > pairs.tsv"),
    "attributions": (read_pairs, "x.tsv", table(*((*p, "CC-BY") for p in PAIRS)), {},
        r"3 columns.*--columns 1,2"),
    "Alpaca": (read_pairs, "x.jsonl", objects({"instruction": "a", "input": "b", "output": "c"}), {},
        r"which column is the source.*--columns instruction\+input,output"),
    "three speakers": (read_pairs, "x.jsonl", objects({"turns": [{"from": x, "value": "a"} for x in "abc"]}),
        {}, r"line 1: expected 2 speakers, found 3"),
    "a reply first": (read_pairs, "x.jsonl", objects({"turns": [{"from": x, "value": x} for x in ("ann",
        "human")]}), {}, r"line 1: the dialogue starts with a reply: 'ann'"),
    "a call of a tool": (read_pairs, "x.jsonl", objects(CHAT, {"messages": [{"role": "user",
        "content": None}]}), {}, r"line 2: a turn without text: .*--skip-bad-rows"),
    "pairs with a judgement": (similar, "x.csv", "sentence1,sentence2,score\na b,a c,5.0\n", {},
        r"column score says which pairs mean the same.*\n.*--columns sentence1,sentence2"),
    "MRPC": (similar, "x.tsv", MRPC, {}, r"because 'Quality' is a common name.*pass --header"),
    "CoNLL-2003": (read_tagged, "eng.train", conll("{0} NN B-NP {1}"), {}, "4 columns.*--columns 1,4"),
    "GermEval 2014": (read_tagged, "x.conll", conll("1\t{0}\t{1}"), {}, r"3 columns.*--columns 2,3"),
    "CoNLL-U": (read_tagged, "x.txt", CONLLU, {}, r"may be CoNLL-U, .*--format conllu"),
    "CoNLL-U without tags": (read_tagged, "x.conllu", "1\ta" + "\t_" * 8, {},
        r"such as '_'.*--columns form,xpos"),
    "a word with a space": (read_tagged, "x.conll", "the\tO\nNew York\tB-X\n", {},
        r"line 2: a word contains a space"),
    "a word too many": (read_tagged, "x.conll", "the O\nin O\nNew York B-X\n", {},
        r"line 3: expected word<TAB>tag"),
    "a tag that is not BIO": (read_tagged, "x.tsv", "the\tO\ncat\tB-x\n\nHe S-x\n", {},
        r"line 4: the tag 'S-x' is not O, B-type"),
    "a column that is no tag": (read_tagged, "x.conll", "".join(f"w{i}\tid={i}\n" for i in range(60)), {},
        r"60 different tags of 60 words.*--columns"),
    "lists of two lengths": (read_tagged, "x.jsonl", objects({"words": ["a"], "tags": [1, 2]}), {},
        "line 1: .* as many"),
    "tags in CSV": (read_tagged, "ner.csv", "Word,Tag\nthe,O\n", {},
        r"is CSV, which .* not read.*word<TAB>tag"),
    "SQuAD of another shape": (read_answered, "x.json", json.dumps([*SQUAD["data"],
        {"paragraphs": [{"qas": 1}]}]), {}, r"x.json is not in SQuAD's form.*\nWrite"),
    "no answer": (read_answered, "x.tsv", "Who?\tPaul sang.\n", {},
        "line 1: expected question<TAB>context<TAB>answer, found 2 columns: 'Who"),
    "another answer": (read_answered, "x.tsv", "Who?\tPaul sang.\tMarie\n", {},
        "line 1: the answer 'Marie' does not occur"),
    "an answer elsewhere": (read_answered, "x.jsonl", objects(QA | {"answer": "cat", "answer_start": 5}), {},
        r"line 1: the answer 'cat' does not occur in its context at 5.*--skip-bad-rows"),
    "CoNLL-U as sentences": (read_documents, "x.conllu", CONLLU, {}, r"is CoNLL-U.*--format plain"),
    "Windows-1252": (read_pairs, "x.tsv", b"a\tb\n\x93caf\xe9\x94\tcoffee\n", {},
        r"line 2: not UTF-8.*\n.*iconv -f WINDOWS-1252 -t UTF-8 x.tsv"),
    "UTF-16": (read_pairs, "x.tsv", "café\tcoffee\n".encode("utf-16"), {}, r"is UTF-16.*\n.*iconv -f UTF-16"),
    "gzip": (read_noted_text, "x.gz", gzip.compress(b"a" * 200), {},
        r"compressed \(gzip\).*\n.*gunzip -k x.gz"),
    "a spreadsheet": (read_labelled, "x.xlsx", b"PK\x03\x04" + bytes(100), {},
        r"spreadsheet, save it as CSV"),
    "an unknown format": (read_labelled, "x.tsv", "a\tb\n", {"format": "xml"},
        r"unknown format 'xml'.*\n.*tsv"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_files_are_rejected_with_the_flag_to_use(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    read, file, content, flags, message = REFUSED[name]
    write(file, content)
    with pytest.raises(UserError) as error:
        read(file, how=FileFormat(**flags))
    dots_match_lines = 0 if r"\n" in message else re.DOTALL
    assert re.search(message, str(error.value), dots_match_lines), str(error.value)
    assert 2 <= len(str(error.value).splitlines()) <= 13


@pytest.mark.parametrize(
    "answers",
    [
        {"answers": {"text": ["cat", "the cat", "cat"], "answer_start": [4, 0, 4]}},
        {"answers": [{"text": text, "answer_start": i} for text, i in (("cat", 4), ("the cat", 0))]},
        {"answer": ["cat", "the cat", ""], "answer_start": [4, 0, 0]},
    ],
)
def test_all_right_answers_of_a_question_are_read(tmp_path, answers):
    (tmp_path / "qa.jsonl").write_text(objects(QA | answers))
    (example,) = read_answered(tmp_path / "qa.jsonl")
    assert example.answers == ("cat", "the cat")
    assert (example.answer, example.start) == ("cat", 4)  # the answer that is learned


@pytest.mark.slow
def test_format_flags_work_in_recipes_and_evaluate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write("mine.tsv", table(("snippet", "mood"), *LABELLED, ["x"]))
    write("dev.csv", table(("sentence", "label"), *LABELLED[:3], tab=","))
    keys = '[data]\ndataset = "file"\ncolumns = "snippet,mood"\nskip_bad_rows = true\nexamples = 0\n'
    write("bert.toml", f'task = "classification"\n{keys}[model]\nhead = "classification"\n')
    train = ["train", "bert.toml", "--data", "mine.tsv", "--run-dir", "run"]
    assert main([*train, *TINY_BERT]) == 0
    before, _ = capsys.readouterr().err.split("parameters")
    assert "mine.tsv: TSV with a header: snippet as text, mood as label\n" in before
    assert "warning: mine.tsv: 1 row is left out" in before
    assert "mine.tsv: labels: neg (6), pos (6)\n" in before
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["data"]["columns"] == "snippet,mood"
    assert sum(map(len, Run("run").splits().values())) == 12
    evaluate = ["evaluate", "run", "--json", "--data", "dev.csv", "--columns", "sentence,label"]
    assert main([*evaluate, "--no-skip-bad-rows"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["n"] == 3
    assert "dev.csv: CSV with a header: sentence as text, label" in err
