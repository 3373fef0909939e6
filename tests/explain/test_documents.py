"""The worked examples of other texts: what they print beside what follows from their numbers."""

from minitransformer.explain.documents import comparison


def is_off(printed, ours):
    decimals = len(str(printed).partition(".")[2])
    return printed is not None and abs(printed - ours) > 2.01 * 10 ** -max(decimals, 2)


def test_where_a_text_is_off_the_note_says_that_its_own_numbers_give_another_result():
    found = comparison()["examples"]
    assert len(found) == 10
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
