"""minigrad with the whole step captured (`minigrad.capture`): forward, backward, optimizer are replayed."""

from __future__ import annotations

from typing import Any

from . import ours

LABEL = "minigrad, captured"
PACKAGES = ours.PACKAGES
CANNOT: dict[str, str] = {}


def decoder(*work: Any) -> ours.Step:
    return ours.decoder(*work).capture()


def phrasebook(*work: Any) -> ours.Step:
    return ours.phrasebook(*work).capture()


def recurrent(*work: Any) -> ours.Step:
    return ours.recurrent(*work).capture()


def mlp(*work: Any) -> ours.Step:
    return ours.mlp(*work).capture()


def attention(*work: Any) -> ours.Step:
    return ours.attention(*work).capture()
