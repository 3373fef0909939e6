"""`minitransformer heads RUN`: rank a translator's heads by how well they align words or resolve "it"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import no_grad

from ..data.batching import collate
from ..inspection.recording import record_attention, weights_array
from ..module_names import readable_name
from ..runs.run import Run
from .parsing import parse
from .wording import unsupported_error

Pairs = Sequence[tuple[list[int], list[int]]]  # token ids of source and target


def run(argv: list[str]) -> None:
    def heads(run: Path, text: str | None = None, *, checkpoint: str = "best", device: str = "cpu") -> None:
        """Rank a translator's heads: which align words, and which find what "it" stands for.

        A head aligns words if, at the position that predicts a word, it attends to the source word that is
        most often in the same training pairs. What "it" stands for is known for the phrasebook's sentences
        only. For these, the attention on the right noun and on the other noun is shown: from "it" in the
        encoder, and from the position that predicts il or elle in the decoder.

        Args:
            text: A sentence to translate; by default, the first 500 pairs of the test data are used.
        """
        trained = Run(run, checkpoint, device)
        if not hasattr(trained.task, "translate") or not trained.model.is_encoder_decoder:
            raise unsupported_error(trained, "align words")
        tokenizer: Any = trained.tokenizer
        splits = trained.splits()
        pairs = (splits.get("test") or splits["validation"])[:500]
        references = [getattr(pair, "reference", None) for pair in pairs]
        if text is not None:
            known_pairs = dict(zip(map(tuple, pairs), references, strict=True))
            pairs = [(text, *trained.task.translate(trained, [text]))]
            references = [known_pairs.get(pairs[0])]  # known if the data has this very pair
            print(*pairs[0], sep="\n")
        train, ids = (
            [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in each]
            for each in (splits["train"], pairs)
        )
        batch = collate(ids, tokenizer)
        with no_grad(), record_attention(trained.model) as found:
            trained.model(batch["source"], batch["target_in"])
        maps = {path: weights_array(weights) for path, weights in found.items()}
        crossed = {path: weights for path, weights in maps.items() if not path.endswith("self_attention")}
        places, name = alignment(train, ids), tokenizer.id_to_token
        words = [f"{name[ids[i][1][t]]}→{name[ids[i][0][s]]}" for i, t, s in places] if text else []
        print("\nAttention on the word that goes with the one that is written:")
        if not len(places):
            print("no word goes with another in the training data")
        for title, shares in best(attention_at(crossed, places)) if len(places) else ():
            print(f"{shares.mean():.2f}  {title}", *map("{} {:.2f}".format, words, shares), sep="  ")
        known = [(i, reference) for i, reference in enumerate(references) if reference is not None]
        if known and tokenizer.kind == "word":
            encoder = {path: weights for path, weights in maps.items() if path.startswith("encoder")}
            noun, other = (
                attention_at(encoder, np.array([(i, r.pronoun[0], getattr(r, key)[0]) for i, r in known]))
                | attention_at(crossed, np.array([(i, r.pronoun[1], getattr(r, key)[0]) for i, r in known]))
                for key in ("noun", "other")
            )
            print("\nAttention on the noun that “it” stands for, and on the other one:")
            for title, shares in best(noun):
                print(f"{shares.mean():.2f}  {other[title].mean():.2f}  {title}")

    parse(heads, argv, "minitransformer heads")


def alignment(train: Pairs, pairs: Pairs) -> np.ndarray:
    """Align words by Dice's coefficient. Return indices (pair, target token, source token), an array (n, 3).

    Two words are aligned if each has its highest coefficient in the sentence with the other.
    """
    sources: Counter[int] = Counter()
    targets: Counter[int] = Counter()
    both: Counter[tuple[int, int]] = Counter()
    for source, target in train:
        sources.update(set(source))
        targets.update(set(target))
        both.update((s, t) for s in set(source) for t in set(target))
    places = []
    for i, (source, target) in enumerate(pairs):
        dice = np.array([[2 * both[s, t] / (sources[s] + targets[t] + 1) for s in source] for t in target])
        best = (dice > 0.1) & (dice == dice.max(0)) & (dice == dice.max(1, keepdims=True))
        best &= (best.sum(0) == 1) & (best.sum(1, keepdims=True) == 1)  # a repeated word has a tie
        places += [(i, *place) for place in np.argwhere(best)]
    return np.array(places, dtype=int).reshape(-1, 3)


def attention_at(maps: Mapping[str, np.ndarray], places: np.ndarray) -> dict[str, np.ndarray]:
    """The attention weights of each head at indices (pair, query, key), by the head's name."""
    pair, query, key = places.T
    return {
        f"{readable_name(path)}, head {head}": shares
        for path, weights in maps.items()
        for head, shares in enumerate(weights[pair, :, query, key].T, 1)
    }


def best(heads: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """The four heads with the highest mean attention, the highest first."""
    return sorted(heads.items(), key=lambda each: -each[1].mean())[:4]
