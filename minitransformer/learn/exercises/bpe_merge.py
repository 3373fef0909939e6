"""Byte-pair encoding: find the most frequent pair, and merge it.

Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare Words with Subword Units", algorithm 1.
Each word is a tuple of symbols, at first its letters, and comes with its count in the text:

    {("l", "o", "w"): 5, ("l", "o", "w", "e", "r"): 2, ("n", "e", "w"): 6}

One step of training counts all pairs of neighbours: ("l", "o") occurs 7 times and ("e", "w") 6 times. The
most frequent pair becomes one symbol, "lo", wherever it occurs. After as many steps as one likes, frequent
words are one symbol, and rare ones are several.

Two cases need a decision. Of several pairs with the same count, take the one that Python sorts first. And in
"a a a" the pair ("a", "a") occurs twice, but only one of them can be merged: go from left to right, "aa a".
"""

from collections import Counter
from itertools import pairwise


def most_frequent_pair(words):
    """The most frequent pair of neighbours, or None if no word has two symbols."""
    # BLANK: count the pairs and find `best`; `pairwise("abc")` gives ("a", "b") and ("b", "c")
    counts: Counter[tuple[str, str]] = Counter()
    for symbols, count in words.items():
        for pair in pairwise(symbols):
            counts[pair] += count
    best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
    # END
    return best


def merge(symbols, pair):
    """The tuple of symbols, with each occurrence of the pair merged to one symbol."""
    # BLANK: fill the list `merged`, from left to right
    merged = []
    i = 0
    while i < len(symbols):
        length = 2 if symbols[i : i + 2] == pair else 1
        merged.append("".join(symbols[i : i + length]))
        i += length
    # END
    return tuple(merged)


def bpe_merge(words):
    """The words after one step of training, and the pair that was merged."""
    pair = most_frequent_pair(words)
    merged: Counter[tuple[str, ...]] = Counter()
    for symbols, count in words.items():
        merged[merge(symbols, pair)] += count
    return dict(merged), pair
