"""Scores of what each head attends to: the previous token, the same word, punctuation, ...

    with record_attention(model) as maps:
        model(source, target)
    scores = score_heads(maps, sentences, "encoder.*")      # the tokens of each source
    print(scores.sorted_by("previous token"))

A relation (relations.py) says which keys belong to each query. A head's score is the share of its attention
on these keys, averaged over the queries that have some. It is compared with chance, the score of a head that
attends to all visible keys equally (Clark et al. 2019, "What Does BERT Look At?", section 3; Voita et al.
2019, "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned",
section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from rich.table import Table

from ..errors import UserError, check_choice, check_integer, counted, counted_units, truncated_repr
from ..module_names import readable_name
from .printing import table_text
from .recording import weights_array
from .relations import PADDING, RELATIONS, Relation, rare_words, referent


@dataclass(frozen=True, repr=False)
class HeadScores:
    """The score of each head for each relation, and the score by chance.

    Both are NaN for a relation if no query has such keys.
    """

    heads: list[tuple[str, int]]  # the module's path, and the head's index from 0; tables count from 1
    relations: list[str]
    scores: Float[np.ndarray, "N R"]
    chance: Float[np.ndarray, "N R"]

    def of(self, relation: str) -> Float[np.ndarray, " N"]:
        """The scores for a relation, one for each head."""
        return self.scores[:, self._column(relation)]

    def above_chance(self, relation: str) -> Float[np.ndarray, " N"]:
        """How much each head's score for a relation exceeds chance."""
        return (self.scores - self.chance)[:, self._column(relation)]

    def sorted_by(self, relation: str) -> HeadScores:
        """The scores sorted such that the head that exceeds chance by most for the relation comes first."""
        order = np.argsort(-self.above_chance(relation), kind="stable")
        heads = [self.heads[i] for i in order]
        return replace(self, heads=heads, scores=self.scores[order], chance=self.chance[order])

    def _column(self, relation: str) -> int:
        check_choice("relation", relation, self.relations)
        return self.relations.index(relation)

    def __rich__(self) -> Table:
        table = Table("layer", "head", box=None, pad_edge=False)
        for relation in self.relations:
            table.add_column(relation.replace(" ", "\n"), justify="right")
        for (path, head), scores in zip(self.heads, self.scores, strict=True):
            table.add_row(_short(path), str(head + 1), *map(_number, scores))
        for path, chance in self._chances().items():
            table.add_row(_short(path), "by chance", *map(_number, chance), style="dim")
        return table

    def _chances(self) -> dict[str, Float[np.ndarray, " R"]]:
        """The chance scores by module path, or by an empty path if they are the same for all modules."""
        if np.ptp(np.nan_to_num(self.chance), axis=0).max(initial=0) == 0:
            return {"": self.chance[0]}
        return {path: chance for (path, _), chance in zip(self.heads, self.chance, strict=True)}

    def __repr__(self) -> str:
        return table_text(self)


def _short(path: str) -> str:
    return readable_name(path.removesuffix(".self_attention"))


def _number(score: float) -> str:
    return "-" if np.isnan(score) else f"{score:.2f}"


def score_heads(
    maps: Mapping[str, Any],
    sentences: Sequence[Sequence[str]],
    pattern: str = "*self_attention",
    *,
    counts: Mapping[str, int] | None = None,
    rare_below: int = 10,
    referents: Sequence[Mapping[int, int | Sequence[int]]] | None = None,
    relations: Mapping[str, Relation] = RELATIONS,
) -> HeadScores:
    """Score the self-attention heads that `record_attention` recorded, for each relation.

    `sentences` are the tokens that the model read, including special tokens. Shorter ones are padded on the
    right, or include padding tokens. `pattern` selects modules, as in `fnmatch`: an encoder and a decoder
    read different tokens, and are scored separately. If no head of a module looks ahead, its mask is assumed
    to be causal. A query counts only if it sees related keys and other keys.

    If `counts` of tokens are given, the relation "rare words" is added: tokens that occur fewer than
    `rare_below` times. If `referents` are given, the relation "referent" is added: they are a dict for each
    sentence, from a pronoun's position to the position or positions of its referent: {7: 1} or {7: [0, 1]}.
    """
    modules = {path: weights_array(weights) for path, weights in maps.items() if fnmatchcase(path, pattern)}
    if not modules:
        raise UserError(
            f"no attention that was recorded matches {pattern!r}: {truncated_repr(list(maps))}.\n"
            f"Run the model within record_attention, and pass a pattern such as 'encoder.*self_attention'."
        )
    real = _real_tokens(sentences)
    for path, weights in modules.items():
        _check_shape(path, weights, real)
    of_each = {name: [relation] * len(sentences) for name, relation in relations.items()}
    if counts is not None:
        check_integer("rare_below", rare_below, 1)
        of_each["rare words"] = [partial(rare_words, counts, rare_below)] * len(sentences)
    if referents is not None:
        of_each["referent"] = [partial(referent, positions) for positions in referents]
    related = {name: _related(each, sentences, real) for name, each in of_each.items()}
    keys = np.stack([*related.values()], 1)
    pairs = [scores_and_chance(weights, keys, _visible(weights, real)) for weights in modules.values()]
    heads = [(path, head) for path, weights in modules.items() for head in range(weights.shape[1])]
    scores, chance = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return HeadScores(heads, [*related], scores, chance)


def scores_and_chance(
    weights: Float[np.ndarray, "B H T T"],
    keys: Bool[np.ndarray, "B R T T"],
    visible: Bool[np.ndarray, "B T T"],
) -> tuple[Float[np.ndarray, "H R"], Float[np.ndarray, "H R"]]:
    """The share of each head's attention that is on the keys of each relation, and the same by chance.

    Both are means over the queries that see keys of the relation and other keys; NaN if there are none.
    """
    keys = keys & visible[:, None]
    others = visible[:, None] & ~keys
    has_choice = keys.any(-1) & others.any(-1)  # (B, R, T)
    queries = has_choice.sum((0, 2))
    even = keys.sum(-1) / np.maximum(visible.sum(-1), 1)[:, None]  # (B, R, T)
    on_keys = np.einsum("bhts,brts,brt->hr", weights, keys, has_choice, optimize=True)
    with np.errstate(invalid="ignore"):  # 0 / 0: no queries
        scores = on_keys / queries
        chance = (even * has_choice).sum((0, 2)) / queries
    return scores, np.tile(chance, (len(scores), 1))


def _real_tokens(sentences: Sequence[Sequence[str]]) -> Bool[np.ndarray, "B T"]:
    """Which tokens are not padding, after shorter sentences are padded on the right."""
    longest = max(map(len, sentences), default=0)
    padded = [[*tokens, *[PADDING[0]] * (longest - len(tokens))] for tokens in sentences]
    return ~np.isin(np.array(padded, dtype=str).reshape(len(padded), longest), PADDING)


def _check_shape(path: str, weights: Float[np.ndarray, "B H T S"], real: Bool[np.ndarray, "N L"]) -> None:
    batch, _, queries, keys = weights.shape
    if (batch, queries, keys) != (len(real), real.shape[1], real.shape[1]):
        raise UserError(
            f"{path} attends from {counted_units(queries, 'queries')} to {counted(keys, 'key')} in "
            f"{counted(batch, 'row')}, for {counted(len(real), 'sentence')} of at most "
            f"{counted(real.shape[1], 'token')}.\n"
            f"Pass the tokens that it read, special ones included, and a pattern for the modules which did."
        )


def _visible(
    weights: Float[np.ndarray, "B H T T"], real: Bool[np.ndarray, "B T"]
) -> Bool[np.ndarray, "B T T"]:
    """Which keys each query may attend to: real ones, and not later ones if no head looks ahead."""
    visible = real[:, :, None] & real[:, None]
    return visible if np.triu(weights, 1).any() else np.tril(visible)


def _related(
    relations: Sequence[Relation], sentences: Sequence[Sequence[str]], real: Bool[np.ndarray, "B T"]
) -> Bool[np.ndarray, "B T T"]:
    """Apply each sentence's relation to its tokens that are not padding."""
    if len(relations) != len(sentences):
        raise UserError(
            f"referents of {counted(len(relations), 'sentence')} for {len(sentences):,}.\n"
            f"Pass a dict for each sentence, {{}} if it has no pronoun."
        )
    found = np.zeros((*real.shape, real.shape[1]), dtype=bool)
    for row, relation, tokens, is_real in zip(found, relations, sentences, real, strict=True):
        (places,) = is_real.nonzero()
        row[np.ix_(places, places)] = relation([tokens[i] for i in places])
    return found
