"""Files in each public form train a model."""

# ruff: noqa: F811 (a fixture that is imported)

import json

import pytest

from minitransformer.runs.run import Run
from tests.data.test_file_formats import (
    DIALOGUE,
    LABELLED,
    LABELLED_CSV,
    PAIRS,
    REPLIES,
    TAGGED,
    TEXTS,
    Form,
    conll,
    conllu,
    folder,  # noqa: F401 (a fixture)
    lines,
    objects,
    train,
    write,
)

QUESTIONS = [(f"what is the {t.split()[1]} ?", f"{t}, they say", t.split()[3]) for t in TEXTS]


ANSWERED_AT = [(q, context, answer, context.index(answer)) for q, context, answer in QUESTIONS]


ENTITIES = [(words, ("O", "B-THING", "O", "O")) for words, _ in TAGGED]


def squad(questions):
    """SQuAD 2.0: nested, with a question that has no answer."""
    paragraphs = [
        {
            "context": context,
            "qas": [
                {
                    "id": str(i),
                    "question": question,
                    "answers": [{"text": answer, "answer_start": context.index(answer)}],
                    "is_impossible": False,
                }
            ],
        }
        for i, (question, context, answer) in enumerate(questions)
    ]
    paragraphs[0]["qas"].append({"id": "x", "question": "why ?", "answers": [], "is_impossible": True})
    return json.dumps({"version": "v2.0", "data": [{"title": "hats", "paragraphs": paragraphs}]})


READ = {
    "SST-2": Form(
        "bert-classify",
        "train.tsv",
        lines([("sentence", "label"), *LABELLED]),
        LABELLED,
        "train.tsv: TSV with a header: sentence as text, label",
    ),
    "a header of unknown names": Form(
        "bert-classify",
        "train.tsv",
        lines([("snippet", "mood"), *LABELLED]),
        LABELLED,
        "snippet as text, mood as label",
        "--header",
    ),
    "GLUE with an index": Form(
        "bert-classify",
        "train.tsv",
        lines([("index", "sentence", "label"), *((i, *e) for i, e in enumerate(LABELLED))]),
        LABELLED,
        "not read: index",
    ),
    "CoLA, without a header": Form(
        "bert-classify",
        "in_domain_train.tsv",
        lines(("gj04", label, "*", text) for text, label in LABELLED),
        LABELLED,
        "column 4 as text, column 2 as label",
        "--columns 4,2",
    ),
    "CSV with quotes and a header": Form(
        "bert-classify",
        "train.csv",
        LABELLED_CSV,
        [(f'{text}, "so"', label) for text, label in LABELLED],
        "CSV with a header: text, label",
    ),
    "CSV with semicolons, of pandas": Form(
        "bert-classify",
        "train.csv",
        lines([("", "text", "label"), *((i, *e) for i, e in enumerate(LABELLED))], ";"),
        LABELLED,
        "CSV with semicolons with a header: text, label; not read: column 1",
    ),
    "CSV without a header": Form(
        "bert-classify", "train.csv", lines(LABELLED, ","), LABELLED, "", "--no-header"
    ),
    "JSON lines": Form(
        "bert-classify",
        "train.jsonl",
        objects(*({"idx": i, "text": t, "label": i % 2} for i, t in enumerate(TEXTS))),
        [(t, str(i % 2)) for i, t in enumerate(TEXTS)],
        "JSON lines: text, label; not read: idx",
    ),
    "TREC": Form(
        "bert-classify",
        "train_5500.label",
        "".join(f"{'HUM' if i % 2 else 'DESC'}:ind What {t} ?\n" for i, t in enumerate(TEXTS)),
        [(f"What {t} ?", "HUM" if i % 2 else "DESC") for i, t in enumerate(TEXTS)],
        "TREC's format: text, label; not read: fine",
    ),
    "fastText": Form(
        "bert-classify",
        "train.txt",
        "".join(f"__label__{label} {text}\n" for text, label in LABELLED),
        LABELLED,
        "fastText's format: text, label",
    ),
    "names with a label first": Form(
        "bert-classify",
        "names.tsv",
        lines((b, a) for a, b in LABELLED),
        LABELLED,
        "column 2 as text, column 1 as label",
        "--columns 2,1",
    ),
    "Windows, with a byte-order mark": Form(
        "bert-classify",
        "train.tsv",
        b"\xef\xbb\xbf" + lines(LABELLED).replace("\n", "\t\r\n").encode(),
        LABELLED,
    ),
    "CoNLL-2003": Form(
        "bert-tag",
        "eng.train",
        "-DOCSTART- -X- -X- O\n\n" + conll(ENTITIES, lambda w, t: f"{w} NN B-NP {t}"),
        ENTITIES,
        "4 columns: column 1 as word, 4 as tag",
    ),
    "CoNLL-2003's parts of speech": Form(
        "bert-tag",
        "eng.train",
        "-DOCSTART- -X- O O\n\n" + conll(TAGGED, lambda w, t: f"{w} {t} B-NP O"),
        TAGGED,
        "column 1 as word, 2 as tag",
        "--columns 1,2",
    ),
    "CoNLL with comments and a header": Form(
        "bert-tag",
        "wnut.conll",
        "Word\tTag\n\n# id 1\n" + conll(ENTITIES),
        ENTITIES,
        "not read: 1 comment and the header",
    ),
    "CoNLL-U": Form(
        "bert-tag",
        "en_ewt-ud-train.conllu",
        conllu(TAGGED),
        TAGGED,
        "CoNLL-U: form as word, upos as tag; not read: 60 comments, 30 ranges of words, 30 empty nodes",
    ),
    "CoNLL-U, of another column": Form(
        "bert-tag",
        "train.txt",
        conllu(TAGGED),
        [(w, tuple(f"X{t}" for t in tags)) for w, tags in TAGGED],
        "form as word, xpos as tag",
        "--columns form,xpos",
    ),
    "JSON lines of tokens": Form(
        "bert-tag",
        "train.jsonl",
        objects(*({"tokens": w, "ner_tags": t} for w, t in ENTITIES)),
        ENTITIES,
        "tokens as words, ner_tags as tags",
    ),
    "SQuAD": Form(
        "bert-answers",
        "train-v2.0.json",
        squad(QUESTIONS),
        ANSWERED_AT,
        "1 question without an answer is left out",
    ),
    "SQuAD as JSON lines": Form(
        "bert-answers",
        "train.jsonl",
        objects(
            *(
                {
                    "id": str(i),
                    "context": c,
                    "question": q,
                    "answers": {"text": [a], "answer_start": [c.index(a)]},
                }
                for i, (q, c, a) in enumerate(QUESTIONS)
            )
        ),
        ANSWERED_AT,
        "question, context, answers.text as answer",
    ),
    "questions with a header": Form(
        "bert-answers",
        "qa.csv",
        lines([("context", "question", "answer"), *((f'"{c}"', q, a) for q, c, a in QUESTIONS)], ","),
        QUESTIONS,
        "CSV with a header: question, context, answer",
    ),
    "parallel text with languages": Form(
        "phrasebook", "en-fr.tsv", lines([("en", "fr"), *PAIRS]), PAIRS, "en as source, fr as target"
    ),
    "Tatoeba, with attributions": Form(
        "phrasebook",
        "fra.txt",
        lines((*p, "CC-BY 2.0") for p in PAIRS),
        PAIRS,
        "column 1 as source, column 2 as target",
        "--columns 1,2",
    ),
    "JSON lines of translations": Form(
        "phrasebook",
        "train.jsonl",
        objects(*({"id": i, "translation": {"en": e, "fr": f}} for i, (e, f) in enumerate(PAIRS))),
        PAIRS,
        "translation.en as source, translation.fr as target",
    ),
    "the other direction": Form(
        "phrasebook",
        "train.jsonl",
        objects(*({"translation": {"en": e, "fr": f}} for e, f in PAIRS)),
        [(f, e) for e, f in PAIRS],
        "",
        "--columns fr,en",
    ),
    "summaries": Form(
        "phrasebook",
        "samsum.json",
        json.dumps(
            [{"id": str(i), "dialogue": f"A: {e}\r\nB: yes", "summary": f} for i, (e, f) in enumerate(PAIRS)]
        ),
        [(f"A: {e}  B: yes", f) for e, f in PAIRS],
        "JSON: dialogue as source, summary as target",
    ),
    "chat messages": Form(
        "dialogue",
        "chat.jsonl",
        objects(
            *(
                {
                    "messages": [
                        {"role": "system", "content": "Be kind."},
                        *(
                            {"role": "assistant" if n % 2 else "user", "content": f"{said} {i}"}
                            for n, said in enumerate(DIALOGUE)
                        ),
                    ]
                }
                for i in range(10)
            )
        ),
        [
            (u.replace(".", f". {i}").replace("?", f"? {i}"), f"{r} {i}")
            for i in range(10)
            for u, r in REPLIES
        ],
        "10 system messages are not read",
    ),
    "utterances": Form(
        "dialogue",
        "dialog.jsonl",
        objects(*({"dialog": [f"{i} {DIALOGUE[0]}", *DIALOGUE[1:]]} for i in range(10))),
        [(u.replace("Hi", f"{i} Hi"), r) for i in range(10) for u, r in REPLIES],
        "each reply in dialog, with the turns before it",
    ),
    "prefixed pairs": Form(
        "t5-prefixes",
        "tasks.jsonl",
        objects(*({"input": f"negate: {e}", "target": f} for e, f in PAIRS)),
        [(f"negate: {e}", f) for e, f in PAIRS],
        "input as source, target",
    ),
    "paraphrases": Form(
        "bert-similar",
        "quora.csv",
        lines([("id", "question1", "question2"), *((i, *p) for i, p in enumerate(PAIRS))], ","),
        PAIRS,
        "question1 as source, question2 as target; not read: id",
    ),
    "names": Form("shakespeare-char-cpu", "names.txt", lines(zip(TEXTS)), lines(zip(TEXTS))),
    "a column of texts": Form(
        "shakespeare-char-cpu",
        "names.csv",
        lines([("name", "n"), *((t, 1) for t in TEXTS)], ","),
        lines(zip(TEXTS)),
        "name as text; not read: n",
    ),
    "JSON lines of texts": Form(
        "bert-mlm",
        "c4.jsonl",
        objects(*({"text": t, "url": "x"} for t in TEXTS)),
        [(t,) for t in TEXTS],
        "JSON lines: text; not read: url",
    ),
    "a column to denoise": Form(
        "t5-denoise",
        "texts.tsv",
        lines([("id", "text"), *enumerate(TEXTS)]),
        TEXTS,
        "TSV with a header: text; not read: id",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_in_a_public_form_trains_and_is_read_for_what_it_is(folder, capsys, name):
    form = READ[name]
    write(form.file, form.content)
    assert train(form) == 0
    assert form.says in capsys.readouterr().err
    run = Run("run")
    splits = run.splits().values()
    if isinstance(form.examples, str):
        assert "".join(splits) == form.examples
        return
    assert sorted(map(tuple_of, (e for split in splits for e in split))) == sorted(
        map(tuple_of, form.examples)
    )
    if form.recipe == "bert-classify":
        assert run.labels == sorted({label for _, label in form.examples})
    if form.recipe == "bert-tag":
        assert run.labels == sorted({tag for _, tags in form.examples for tag in tags})


def tuple_of(example):
    return example if isinstance(example, str) else tuple(example)
