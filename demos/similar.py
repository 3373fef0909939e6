"""Find sentences similar to yours, with the vectors of a BERT that learned to fill in masked words.

minitransformer train bert-mlm
python demos/similar.py runs/bert-mlm "The girl reads a big book."

The vector of a sentence is the mean of its tokens' states; the model was not trained on similarity.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import no_grad
from minitransformer import BERT
from minitransformer.data.batching import pad_rows
from minitransformer.data.phrasebook import phrasebook
from minitransformer.runs.run import Run
from minitransformer.text.tokenizer_presets import CLS, SEP


def with_similarity(model: BERT) -> BERT:
    """The body of a BERT, with the head that returns a vector for a sentence."""
    similar = BERT(replace(model.config, head="similarity"))
    similar.load_state_dict(model.state_dict(), strict=False)
    return similar.eval()


@no_grad()
def vectors(model: BERT, tokenizer: Any, sentences: list[str]) -> np.ndarray:
    """A unit vector for each sentence."""
    cls, sep = (tokenizer.special_id(token) for token in (CLS, SEP))
    rows = [[cls, *tokenizer.encode(sentence), sep] for sentence in sentences]
    return model(pad_rows(rows, tokenizer.pad_id)).numpy()


def nearest(
    model: BERT, tokenizer: Any, sentence: str, others: list[str], count: int = 5
) -> list[tuple[float, str]]:
    """The most similar of the other sentences, and the cosines of their vectors with the sentence's."""
    cosines = vectors(model, tokenizer, others) @ vectors(model, tokenizer, [sentence])[0]
    return [(float(cosines[i]), others[i]) for i in np.argsort(-cosines)[:count]]


def main(run: Path, sentence: str = "The girl reads a big book.") -> None:
    trained = Run(run)
    others = [english for english, _ in phrasebook().test]
    for cosine, other in nearest(with_similarity(trained.model), trained.tokenizer, sentence, others):
        print(f"{cosine:.2f}  {other}")


if __name__ == "__main__":
    from saving import run as run_demo

    run_demo(main)
