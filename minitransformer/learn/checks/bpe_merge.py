"""Byte-pair encoding: find the most frequent pair, and merge it."""

import operator
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise
from types import ModuleType
from typing import Any

from ..checking import Wrong, check_cases

LESSON = 6
REASONING = ""
HINTS = (
    "Counting: two loops, over the words and over the pairs of a word. A word that occurs 5 times has each "
    "pair 5 times. Merging: look at symbols i and i + 1; how far does i move on in either case?",
    "A key for `min` that sorts by the count, largest first, and then by the pair: (-counts[pair], pair). "
    "In `merge`, a while loop: i moves by 2 after a merge, by 1 otherwise, and keeps the last symbol.",
    "best = min(counts, key=lambda pair: (-counts[pair], pair), default=None). In the loop: if "
    "symbols[i : i + 2] == pair, append symbols[i] + symbols[i + 1]; else append symbols[i].",
)
Words = dict[tuple[str, ...], int]
PAPER: Words = {tuple("low"): 5, tuple("lower"): 2, tuple("newest"): 6, tuple("widest"): 3}
COUNTED: tuple[Words, ...] = (
    PAPER,
    {
        tuple("xab"): 1,
        tuple("abx"): 1,
        tuple("cdx"): 7,
        tuple("abc"): 1,
    },  # ab is in more words, cd is more frequent
    {("a", "b"): 3, ("c", "d"): 3, ("b", "a"): 2},  # a tie, and a pair in the other order
    {("z", "y"): 4, ("b", "c"): 4, ("b", "d"): 4},  # a tie, of which the first sorted is not the first
    {("a", "a", "a"): 2, ("b", "c"): 3},  # two pairs in one word
    {tuple("aca"): 4, tuple("aba"): 2, tuple("ab"): 3},
    {("lo", "w"): 4, ("l", "ow"): 5},
    {("a",): 9, ("b", "c"): 1},
    {("a",): 3},
    {},
)
MERGED: tuple[tuple[str | tuple[str, ...], tuple[str, str]], ...] = (
    ("newest", ("e", "s")), ("lower", ("e", "r")), ("lower", ("l", "o")), ("abab", ("a", "b")),
    ("abcab", ("a", "b")), ("aaa", ("a", "a")), ("aaaaa", ("a", "a")), ("aaaa", ("a", "a")),
    ("ba", ("a", "b")), ("acb", ("a", "b")), (("xa", "b", "a", "b"), ("a", "b")),
    (("a", "b", "ab"), ("a", "b")), (("a", "bc", "ab", "c"), ("ab", "c")), ("abc", ("x", "y")),
    ("a", ("a", "b")), ("", ("a", "b")),
)  # fmt: skip


def check(answer: ModuleType) -> None:
    check_cases(
        answer.most_frequent_pair,
        [(words,) for words in COUNTED],
        _most_frequent,
        PAIRS,
        lambda words: f"most_frequent_pair({_shown(words)})",
        lambda words: f"The counts are {_listed(_counted(words))}.",
        operator.eq,
        _unknown,
        by_luck=True,
    )
    check_cases(
        answer.merge,
        [(tuple(symbols), pair) for symbols, pair in MERGED],
        _merged,
        MERGES,
        lambda symbols, pair: f"merge({symbols}, {pair})",
        "Go from left to right; look at two symbols each time.",
        operator.eq,
        _unknown,
    )
    words = {("a", "b", "c"): 2, ("ab", "c"): 3, ("a", "b"): 4}
    found = answer.bpe_merge(words)
    right = ({("ab", "c"): 5, ("ab",): 4}, ("a", "b"))
    if found != right:
        _unknown(f"bpe_merge({_shown(words)})", found, right, "Keep the function bpe_merge as it was.")


def _unknown(call: str, found: Any, right: Any, advice: str) -> None:
    raise Wrong(f"{call} is {found!r}, expected {right!r}", advice)


def _shown(words: Words) -> str:
    return "{" + ", ".join(f"{' '.join(symbols)!r}: {count}" for symbols, count in words.items()) + "}"


def _listed(counts: Counter[tuple[str, ...]]) -> str:
    return ", ".join(f"{' '.join(pair)}: {count}" for pair, count in counts.most_common(4)) or "empty"


# ------------------------------------------------------------ counting


def _counted(
    words: Words, neighbours: Callable[..., Any] = pairwise, weighted: bool = True
) -> Counter[tuple[str, ...]]:
    counts: Counter[tuple[str, ...]] = Counter()
    for symbols, count in words.items():
        for pair in neighbours(symbols):
            counts[pair] += count if weighted else 1
    return counts


def _first_best(counts: Counter[Any]) -> Any:
    return min(counts, key=lambda pair: (-counts[pair], pair), default=None)


def _most_frequent(words: Words) -> Any:
    return _first_best(_counted(words))


def _across(words: Words) -> Counter[tuple[str, ...]]:
    return Counter(pairwise([s for symbols, count in words.items() for s in symbols * count]))


def _last_counts(words: Words) -> Counter[tuple[str, ...]]:
    return Counter({pair: count for symbols, count in words.items() for pair in pairwise(symbols)})


def _best_word(words: Words) -> Any:
    """The first pair of the most frequent word that has a pair."""
    long = {symbols: count for symbols, count in words.items() if len(symbols) > 1}
    return max(long, key=lambda symbols: long[symbols])[:2] if long else None


def _with_count(words: Words) -> Any:
    best = _most_frequent(words)
    return best and (best, _counted(words)[best])


COUNTS: dict[str, Callable[[Words], Counter[Any]]] = {
    "": _counted,
    "symbols are counted, not pairs of neighbours": lambda words: _counted(words, lambda symbols: symbols),
    "the words' counts are left out: a pair in a word that occurs 5 times occurs 5 times": (
        lambda words: _counted(words, weighted=False)
    ),
    "a pair's count is that of the last word with it: counts must add up": _last_counts,
    "only the last word is counted: begin to count before the loop over the words": (
        lambda words: _counted(dict(list(words.items())[-1:]))
    ),
    "a pair that occurs twice in a word is counted once there": (
        lambda words: _counted(words, lambda symbols: dict.fromkeys(pairwise(symbols)))
    ),
    "symbols that are not neighbours are counted as pairs": (
        lambda words: _counted(words, lambda symbols: combinations(symbols, 2))
    ),
    "both orders of a pair are counted as one: ('a', 'b') and ('b', 'a') differ": (
        lambda words: _counted(words, lambda symbols: (tuple(sorted(pair)) for pair in pairwise(symbols)))
    ),
    "pairs across the border of two words are counted": _across,
    "only every second pair is counted: ab and cd of abcd, but not bc": (
        lambda words: _counted(words, lambda symbols: zip(symbols[::2], symbols[1::2], strict=False))
    ),
    "the last pair of each word is left out": (
        lambda words: _counted(words, lambda symbols: list(pairwise(symbols))[:-1])
    ),
    "the first pair of each word is left out": (
        lambda words: _counted(words, lambda symbols: list(pairwise(symbols))[1:])
    ),
}
CHOICES: dict[str, Callable[[Counter[Any]], Any]] = {
    "": _first_best,
    "of pairs with the same count this is the first that was counted: take the first in sorted order": (
        lambda counts: max(counts, key=counts.__getitem__, default=None)
    ),
    "of pairs with the same count this is the last that was counted: take the first in sorted order": (
        lambda counts: max(reversed(counts), key=counts.__getitem__, default=None)
    ),
    "of pairs with the same count this is the last in sorted order: take the first": (
        lambda counts: max(counts, key=lambda pair: (counts[pair], pair), default=None)
    ),
    "this is the rarest pair": lambda counts: min(
        counts, key=lambda pair: (counts[pair], pair), default=None
    ),
    "this is one of the rarest pairs": lambda counts: min(counts, key=counts.__getitem__, default=None),
    "this is the first pair that Python sorts, whatever its count": lambda counts: min(counts, default=None),
    "this is the last pair that Python sorts, whatever its count": lambda counts: max(counts, default=None),
}


def _chosen(
    count: Callable[[Words], Counter[Any]], choose: Callable[[Counter[Any]], Any], words: Words
) -> Any:
    return choose(count(words))


PAIRS: dict[str, Callable[[Words], Any]] = {
    "it returns nothing": lambda words: None,
    "this is the merged symbol, not the pair": lambda words: "".join(_most_frequent(words) or ()) or None,
    "this is the pair with its count: return the pair alone": _with_count,
    "these are the counts: return the most frequent pair": _counted,
    "this is from the most frequent word: a pair's count is the sum over all words": _best_word,
} | {
    ". And ".join(filter(None, (wrong_count, wrong_choice))): (partial(_chosen, count, choose))
    for wrong_choice, choose in CHOICES.items()
    for wrong_count, count in COUNTS.items()
    if wrong_count or wrong_choice
}

# ------------------------------------------------------------ merging

Symbols = tuple[str, ...]


def _merged(symbols: Symbols, pair: Any, most: int = 99, after: int = 2, ends: bool = True) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols) - (not ends):
        if symbols[i : i + 2] == pair and most:
            merged.append("".join(pair))
            i += after
            most -= 1
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merged_if(symbols: Symbols, condition: Callable[[Symbols], bool]) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols):
        length = 2 if condition(symbols[i : i + 2]) else 1
        merged.append("".join(symbols[i : i + length]))
        i += length
    return tuple(merged)


def _replaced(symbols: Symbols, pair: Any, keep: str) -> Symbols:
    """The symbols, in which each occurrence of the pair is replaced by `keep`."""
    return tuple(
        s for each in _merged(symbols, pair) for s in ((keep,) if each == "".join(pair) else (each,))
    )


def _from_the_right(symbols: Symbols, pair: Any) -> Symbols:
    return tuple(s[::-1] for s in _merged(_turned(symbols), _turned(pair))[::-1])


def _turned(symbols: Symbols) -> Symbols:
    return tuple(s[::-1] for s in symbols[::-1])


def _text_replaced(symbols: Symbols, pair: Any) -> Symbols:
    return tuple(" ".join(symbols).replace(" ".join(pair), "".join(pair)).split())


MERGES: dict[str, Callable[[Symbols, Any], Any]] = {
    "it returns nothing": lambda symbols, pair: None,
    "nothing is merged": lambda symbols, pair: symbols,
    "this is a list; the key of a dictionary must be a tuple": lambda symbols, pair: list(
        _merged(symbols, pair)
    ),
    "this is a string; a word stays a tuple of symbols": lambda symbols, pair: "".join(symbols),
    "all symbols are merged into one, not only the pair": lambda symbols, pair: ("".join(symbols),),
    "only the first occurrence is merged": lambda symbols, pair: _merged(symbols, pair, 1),
    "the pair's second symbol is kept, too: after a merge go on by two symbols": (
        lambda symbols, pair: _merged(symbols, pair, after=1)
    ),
    "after a merge a symbol is skipped: go on by two symbols": (
        lambda symbols, pair: _merged(symbols, pair, after=3)
    ),
    "the last symbol is lost: it has no neighbour, but belongs to the word": lambda symbols, pair: (
        _merged(symbols, pair, ends=False)
        if _merged(symbols, pair, ends=False) != _merged(symbols, pair)
        else _merged(symbols, pair)[:-1]
    ),
    "the last symbol is lost, and the pair's second symbol is kept: after a merge go on by two symbols": (
        lambda symbols, pair: _merged(symbols, pair, after=1, ends=False)
    ),
    'a symbol is still a tuple: join it with "".join': lambda symbols, pair: tuple(
        pair if s == "".join(pair) else (s,) for s in _merged(symbols, pair)
    ),
    "only the first symbol of the pair is compared: the next one must be the second": (
        lambda symbols, pair: _merged_if(symbols, lambda found: found[:1] == pair[:1])
    ),
    "only the second symbol of the pair is compared: the one before must be the first": (
        lambda symbols, pair: _merged_if(symbols, lambda found: found[1:] == pair[1:])
    ),
    "one symbol of the pair is enough to merge: both must be there": (
        lambda symbols, pair: _merged_if(
            symbols, lambda found: found[:1] == pair[:1] or found[1:] == pair[1:]
        )
    ),
    "the merge goes from right to left": _from_the_right,
    "the pair is found in the text of the symbols, so it also begins inside of a longer symbol; compare "
    "symbols as a whole": _text_replaced,
    "the pair is lost: it becomes one new symbol": lambda symbols, pair: tuple(
        s for s in _merged(symbols, pair) if s != "".join(pair)
    ),
    "the pair is replaced by its first symbol: join both": lambda symbols, pair: _replaced(
        symbols, pair, pair[0]
    ),
    "the pair is replaced by its second symbol: join both": lambda symbols, pair: _replaced(
        symbols, pair, pair[1]
    ),
    "the two symbols are joined in the wrong order": (
        lambda symbols, pair: _replaced(symbols, pair, pair[1] + pair[0])
    ),
    "the pair is still a tuple inside of the word: join its symbols with +": lambda symbols, pair: tuple(
        pair if s == "".join(pair) else s for s in _merged(symbols, pair)
    ),
    "both orders of the pair are merged: ('b', 'a') is another pair": lambda symbols, pair: _merged(
        _merged(symbols, pair), pair[::-1]
    ),
    "symbols of the pair are merged although they are not neighbours": lambda symbols, pair: (
        ("".join(pair), *(s for s in symbols if s not in pair)) if set(pair) <= set(symbols) else symbols
    ),
    "only the merged symbols are kept: all others belong to the word, too": lambda symbols, pair: tuple(
        s for s in _merged(symbols, pair) if s == "".join(pair)
    ),
}
