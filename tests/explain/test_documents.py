"""The worked examples of other texts: what they print beside what follows from their numbers."""

import numpy as np

from minitransformer import generate
from minitransformer.explain.documents import (
    ANSWER,
    SOURCE,
    comparison,
    documents_model,
    examples,
    printed_arrays,
)


def is_off(printed, ours):
    decimals = len(str(printed).partition(".")[2])
    return printed is not None and abs(printed - ours) > 2.01 * 10 ** -max(decimals, 2)


def test_notes_say_where_printed_numbers_differ():
    found = comparison()["examples"]
    assert len(found) == 11
    for example in found:
        off = any(
            is_off(printed, value)
            for each in example["compared"]
            for theirs, ours in zip(each["theirs"], each["ours"], strict=True)
            for printed, value in zip(theirs, ours, strict=True)
        )
        note = example["note"]
        assert example["document"]
        assert "Document 0" not in example["document"]
        assert "Row 0" not in note
        if example["id"] != "paper-base-parameters":  # the paper rounds
            assert ("own numbers" in note or "own scores" in note) == off, example["id"]
        if not off:
            assert note.startswith(("Printed as computed", "It is 63.08"))


def test_one_model_reproduces_all_printed_decoder_numbers():
    model, words = documents_model()
    arrays = printed_arrays(model)
    for name, rows in examples()[1]["printed"].items():
        printed = np.array(rows, float)
        known = ~np.isnan(printed)
        np.testing.assert_allclose(arrays[name][known], printed[known], atol=0.001, err_msg=name)
    (answer,) = generate(model, [SOURCE], max_new_tokens=8)
    assert [words[i] for i in [*answer, ANSWER[-1]]] == ["Je", "t'", "aime", "<END>"]
