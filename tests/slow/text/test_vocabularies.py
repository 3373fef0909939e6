"""Tokenizers of the whole phrasebook."""

from minitransformer.data.phrasebook import phrasebook
from minitransformer.text.tokenizer import Tokenizer


def test_the_phrasebook_uses_the_word_layout():
    tokenizer = Tokenizer.train_word([side for pair in phrasebook().train for side in pair])
    assert (tokenizer.layout, tokenizer.vocab_size) == ("word", 1005)


def test_one_vocabulary_serves_both_languages():
    book = phrasebook().train[:300]
    both = Tokenizer.train_word([side for pair in book for side in pair])
    for language in (0, 1):
        alone = Tokenizer.train_word([pair[language] for pair in book])
        assert alone.token_to_id.keys() <= both.token_to_id.keys()
