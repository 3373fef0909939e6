"""Every sentence of the phrasebook, tokenized and back."""

import pytest

from minitransformer.data.phrasebook import phrasebook
from minitransformer.text.tokenizer import Tokenizer


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_every_phrasebook_sentence_round_trips(kind):
    book = phrasebook()
    texts = [sentence for pair in book.train + book.test for sentence in pair]
    tokenizer = Tokenizer.train_word(texts) if kind == "word" else Tokenizer.train_bpe(texts, 2000)
    changed = [text for text in texts if tokenizer.decode(tokenizer.encode(text)) != text]
    assert changed == []
