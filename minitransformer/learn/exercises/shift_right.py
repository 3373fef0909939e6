"""The decoder's input and the target of teacher forcing.

"Attention Is All You Need", section 3.1: "the output embeddings are offset by one position". In training all
tokens of a text are predicted in one pass: at each position the decoder reads the right tokens so far, and
its target is the token that comes next. A text of n tokens begins after `start_id` and is followed by
`end_id`, so it makes n + 1 predictions: the first from the start alone, the last is the end.

Texts of different lengths share two arrays, padded at the end of the rows: the input with `pad_id`, the
target with IGNORE, which the loss leaves out. How many columns do the arrays need? Some models (T5) start
with `pad_id` itself.
"""

import numpy as np

IGNORE = -100


def teacher_forcing(texts, start_id, end_id, pad_id):
    """Return the input and the target, two arrays of integers with a row for each text (a list of ids)."""
    # BLANK: `decoder_input` and `target`; `[0, *text]` is a new list with 0 before the text
    length = max(len(text) for text in texts) + 1
    decoder_input = np.full((len(texts), length), pad_id)
    target = np.full((len(texts), length), IGNORE)
    for row, text in enumerate(texts):
        n = len(text) + 1
        decoder_input[row, :n] = [start_id, *text]
        target[row, :n] = [*text, end_id]
    # END
    return decoder_input, target
