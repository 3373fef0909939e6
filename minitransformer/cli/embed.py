"""`minitransformer embed RUN TEXT...`: sentence vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError, counted
from ..files import check_can_write, to_json
from ..runs.run import Run
from ..tasks import Similarity
from .lines import Inputs, numbered_lines, numbered_texts, warn_line
from .parsing import parse
from .wording import unsupported_error


def run(argv: list[str]) -> None:
    def embed(
        run: Path,
        text: tuple[str, ...] = (),
        *,
        output: Path | None = None,
        json: bool = False,
        overwrite: bool = False,
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Print a unit vector for each argument or, without arguments, for each line of standard input.

        The dot product of two vectors is the cosine similarity of the texts. A vector is printed as one line
        of numbers, separated by spaces. The vector of an empty line is zero.

        Args:
            text: The texts, each in quotes.
            output: Write a float32 array (texts, width) to this .npy file instead.
            json: Print a JSON list for each text.
            overwrite: Replace an existing file.
        """
        if output is not None:
            if output.suffix != ".npy":
                raise UserError(f"{output} is not the name of a NumPy file.\nUse a name such as vectors.npy.")
            check_can_write(output, overwrite)
        trained = Run(run, checkpoint, device)
        if not issubclass(trained.task, Similarity):
            raise unsupported_error(trained, "embed texts")
        blocks = numbered_texts(text) if text else numbered_lines("embed", str.strip)
        found = []
        for texts in blocks:
            vectors = vectors_of(trained, texts)
            if output is not None:
                found.append(vectors)
                continue
            for vector in vectors:
                print(to_json(vector.tolist()) if json else " ".join(f"{x:.9g}" for x in vector), flush=True)
        if output is not None:
            np.save(output, np.concatenate(found))
            print(f"{counted(sum(map(len, found)), 'vector')} in {output}")

    parse(embed, argv, "minitransformer embed")


def vectors_of(run: Run, named: Inputs) -> np.ndarray:
    """Return the vectors (texts, width), 0 for an empty text. Warn of texts that are cut to `max_length`."""
    for name, text in named.items():
        if isinstance(text, UserError):
            raise UserError(f"{name} cannot be read: {text}")
    names = list(named)
    texts = [text or "" for text in named.values()]
    tokenizer: Any = run.tokenizer
    limit = run.recipe.data.max_length
    vectors = np.zeros((len(texts), run.model.config.hidden_size), np.float32)
    full = [i for i, text in enumerate(texts) if text.strip()]
    for i in full:
        if (length := Similarity.length(tokenizer, (texts[i],))) > limit:
            warn_line(f"{names[i]} has {length} tokens: only the first {limit} are read")
    if full:
        vectors[full] = Similarity.vectors(run, [texts[i] for i in full])
    return vectors
