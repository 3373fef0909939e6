"""From an image to tokens."""

import itertools
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 16
REASONING = "shapes"
HINTS = (
    "An image of 4 x 6 pixels and P = 2: draw its 6 patches, and number them. Which pixels, as row and "
    "column, are in patch 1?",
    "After images.reshape(B, C, H // P, P, W // P, P), the axes are: image, channel, row of patches, row "
    "within the patch, column of patches, column within it. In which order must they be, so that the last "
    "three are a patch and the two before them its place?",
    "transpose(0, 2, 4, 1, 3, 5), then reshape to (B, N, C * P * P). Then @ weight.T + bias; np.concatenate "
    "with the class token of each image along axis 1; + positions.",
)
SIZES = ((2, 3, 4, 6, 2), (1, 2, 6, 4, 2), (3, 1, 3, 6, 3), (1, 3, 4, 4, 4), (2, 2, 2, 3, 1))  # B, C, H, W, P
Images = np.ndarray


def _patches(images: Images, P: int, order: tuple[int, ...] = (0, 2, 4, 1, 3, 5)) -> np.ndarray:
    B, C, H, W = images.shape
    split = images.reshape(B, C, H // P, P, W // P, P)
    return split.transpose(order).reshape(B, -1, C * P * P)


def _strided(images: Images, P: int) -> np.ndarray:
    B, C, H, W = images.shape
    return images.reshape(B, C, P, H // P, P, W // P).transpose(0, 3, 5, 1, 2, 4).reshape(B, -1, C * P * P)


def _strided_not_adapted(images: Images, P: int) -> np.ndarray:
    B, C, H, W = images.shape
    split = images.reshape(B, C, P, H // P, P, W // P)
    return split.transpose(0, 2, 4, 1, 3, 5).reshape(B, -1, C * P * P)


def _as_channels_last(images: Images, P: int) -> np.ndarray:
    B, C, H, W = images.shape
    split = images.reshape(B, H // P, P, W // P, P, C)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(B, -1, C * P * P)


def _sides_exchanged(images: Images, P: int) -> np.ndarray:
    B, C, H, W = images.shape
    return images.reshape(B, C, W // P, P, H // P, P).transpose(0, 2, 4, 1, 3, 5).reshape(B, -1, C * P * P)


WRONG_PATCHES: dict[str, Callable[[Images, int], np.ndarray]] = {
    "the axes are not reordered: each patch is a piece of the memory, where the rows of the image lie one "
    "after the other": lambda x, P: x.reshape(len(x), -1, x.shape[1] * P * P),
    "the channels come last within a patch: here it is channel by channel": (
        lambda x, P: _patches(x, P, (0, 2, 4, 3, 5, 1))
    ),
    "the patches are in the order of columns: they go row by row": lambda x, P: _patches(
        x, P, (0, 4, 2, 1, 3, 5)
    ),
    "each patch is transposed: its rows and columns are exchanged": lambda x, P: _patches(
        x, P, (0, 2, 4, 1, 5, 3)
    ),
    "the image is transposed: its rows and columns are exchanged": lambda x, P: _patches(
        x, P, (0, 4, 2, 1, 5, 3)
    ),
    "the channels are not part of the patch: their axis comes before the patches' place": (
        lambda x, P: _patches(x, P, (0, 1, 2, 4, 3, 5))
    ),
    "each patch takes a row of one patch and a place of another: the axes H / P and W / P come first, then "
    "C, P, P": lambda x, P: _patches(x, P, (0, 2, 3, 1, 4, 5)),
    "the pixels' place within the patch comes before the place of the patch: H / P and W / P come first": (
        lambda x, P: _patches(x, P, (0, 3, 5, 1, 2, 4))
    ),
    "a patch takes pixels from all over the image: H is split into (H / P, P), not into (P, H / P)": _strided,
    "H is split into (P, H / P): it is (H / P, P), with the rows of patches first": _strided_not_adapted,
    "H and W are exchanged where the axes are split": _sides_exchanged,
    "each channel has patches of its own: a patch has all channels": (
        lambda x, P: _patches(x, P, (0, 1, 2, 4, 3, 5)).reshape(len(x), -1, P * P)
    ),
    "the rows and columns of patches are two axes: they are one sequence": (
        lambda x, P: _patches(x, P).reshape(len(x), x.shape[2] // P, x.shape[3] // P, -1)
    ),
    "the patches are not flattened: the last axis has C P P numbers": (
        lambda x, P: _patches(x, P).reshape(len(x), -1, x.shape[1], P, P)
    ),
    "nothing is joined after the split: the result has the axes B, N, C P P": (
        lambda x, P: x.reshape(len(x), x.shape[1], x.shape[2] // P, P, -1, P).transpose(0, 2, 4, 1, 3, 5)
    ),
    "the last two axes are exchanged: (B, N, C P P)": lambda x, P: _patches(x, P).swapaxes(1, 2),
    "the patches of all images are in one row: each image has its own": (
        lambda x, P: _patches(x, P).reshape(-1, x.shape[1] * P * P)
    ),
    "the images are split as if their channels came last: they are (B, C, H, W)": _as_channels_last,
    "all patches of an image are one vector: (B, N, C P P)": lambda x, P: _patches(x, P).reshape(len(x), -1),
    "N and C P P are exchanged where the axes are joined": (
        lambda x, P: _patches(x, P).reshape(len(x), x.shape[1] * P * P, -1)
    ),
    "only the first image is cut": lambda x, P: _patches(x[:1], P),
    "only the first image is cut, and it has no axis": lambda x, P: _patches(x[:1], P)[0],
    "only the first channel is cut": lambda x, P: _patches(x[:, :1], P),
    "the channels are averaged": lambda x, P: _patches(x.mean(1, keepdims=True), P),
}
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _tokens(
    flat: np.ndarray, weight: np.ndarray, bias: np.ndarray, first: np.ndarray, where: np.ndarray
) -> np.ndarray:
    projected = flat @ weight.T + bias
    return np.concatenate([np.tile(first, (len(flat), 1, 1)), projected], 1) + where


def _class_last(
    flat: np.ndarray, weight: np.ndarray, bias: np.ndarray, first: np.ndarray, where: np.ndarray
) -> np.ndarray:
    return np.concatenate([flat @ weight.T + bias, np.tile(first, (len(flat), 1, 1))], 1) + where


WRONG_TOKENS: dict[str, Callable[..., np.ndarray]] = {
    "there is no class token": lambda f, w, b, c, p: f @ w.T + b + p[1:],
    "there is no class token, and the patches have the positions from 0 on": (
        lambda f, w, b, c, p: f @ w.T + b + p[:-1]
    ),
    "there are no class token and no positions": lambda f, w, b, c, p: f @ w.T + b,
    "there are no positions": lambda f, w, b, c, p: _tokens(f, w, b, c, p * 0),
    "the class token comes last: it is the first": _class_last,
    "the class token comes last, and there are no positions": (
        lambda f, w, b, c, p: _class_last(f, w, b, c, p * 0)
    ),
    "the bias is missing": lambda f, w, b, c, p: _tokens(f, w, b * 0, c, p),
    "the bias is added to the class token, too, which does not pass the linear layer": (
        lambda f, w, b, c, p: _tokens(f, w, b, c + b, p)
    ),
    "the class token gets no position": lambda f, w, b, c, p: _tokens(f, w, b, c - p[0], p),
    "the class token gets no position, and the patches have the positions from 0 on": (
        lambda f, w, b, c, p: _tokens(f, w, b, c, np.concatenate([p[:1] * 0, p[:-1]]))
    ),
    "the patches get no positions": (
        lambda f, w, b, c, p: _tokens(f, w, b, c, np.concatenate([p[:1], p[1:] * 0]))
    ),
    "every token gets the first position": lambda f, w, b, c, p: _tokens(f, w, b, c, p[:1]),
    "the tokens are multiplied by the positions: add them": (
        lambda f, w, b, c, p: _tokens(f, w, b, c, p * 0) * p
    ),
    "the positions are appended to the vectors: add them": (
        lambda f, w, b, c, p: np.concatenate([_tokens(f, w, b, c, p * 0), np.tile(p, (len(f), 1, 1))], 2)
    ),
    "the positions are subtracted": lambda f, w, b, c, p: _tokens(f, w, b, c, -p),
    "the positions are added twice": lambda f, w, b, c, p: _tokens(f, w, b, c, 2 * p),
    "the positions are in reverse order": lambda f, w, b, c, p: _tokens(f, w, b, c, p[::-1]),
    "the class token is 0": lambda f, w, b, c, p: _tokens(f, w, b, c * 0, p),
    "the class token is added to the patches: it is a token of its own": (
        lambda f, w, b, c, p: f @ w.T + b + c + p[1:]
    ),
    "the class token is added to every token": lambda f, w, b, c, p: _tokens(f, w, b, c * 0, p + c),
    "every patch has a class token before it": (
        lambda f, w, b, c, p: np.stack([np.broadcast_to(c, (*f.shape[:2], len(c))), f @ w.T + b], 2).reshape(
            len(f), -1, len(c)
        )
    ),
    "only the first image is there": lambda f, w, b, c, p: _tokens(f[:1], w, b, c, p),
}  # fmt: skip


def _other_orders() -> dict[str, Callable[[Images, int], np.ndarray]]:
    """Mistakes that put the six axes into other orders, by verdict."""
    return {
        f"the axes (B, C, H / P, P, W / P, P) are in the order of transpose{order}: the patch's place comes "
        "first, then channel, row and column in it": partial(_patches, order=order)
        for order in itertools.permutations(range(6))
        if order != (0, 2, 4, 1, 3, 5)
    }


def _of_patches(formula: Callable[..., np.ndarray], images: Images, P: int, *parts: np.ndarray) -> np.ndarray:
    return formula(_patches(images, P), *parts)


def _call(images: Images, P: int, *_: np.ndarray) -> str:
    return f"images {list(images.shape)}, P = {P}"


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    images = [np.arange(B * C * H * W, dtype=float).reshape(B, C, H, W) for B, C, H, W, _ in SIZES]
    cases = [(x, P) for x, (*_, P) in zip(images, SIZES, strict=True)]
    check_cases(
        answer.patches,
        cases,
        _patches,
        WRONG_PATCHES | _other_orders(),
        lambda x, P: f"{_call(x, P)}: patches",
        "The pixels of these images are numbered 0, 1, 2, ... as they lie in memory: print a small one and "
        "your first patch.",
        by_luck=True,
    )
    D = 5
    settings: list[tuple[Any, ...]] = []
    for x, P in cases:
        _, N, numbers = _patches(x, P).shape
        settings.append((x, P, *(random.normal(size=s) for s in ((D, numbers), (D,), (D,), (1 + N, D)))))
    check_cases(
        answer.tokens,
        settings,
        partial(_of_patches, _tokens),
        {words: partial(_of_patches, wrong) for words, wrong in WRONG_TOKENS.items()},
        lambda *case: f"{_call(*case)}: tokens",
        "The linear layer, then the class token in front of each image, then positions for all 1 + N tokens.",
        by_luck=True,
    )
