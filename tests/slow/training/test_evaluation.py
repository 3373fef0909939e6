"""Scores of examples alone and together, for each task."""

import pytest

from minitransformer.runs.run import Run
from tests.tiny import PAIRS


def test_per_example_scores_match_single_example_evaluation(place):
    run = Run(place / "mine")
    pairs = sorted(PAIRS[:7], key=lambda pair: -len(pair[0]))
    scores, _ = run.task.evaluate(run, pairs)
    for i, pair in enumerate(pairs):
        alone, _ = run.task.evaluate(run, [pair])
        for name in ("loss", "token_accuracy", "chrf"):
            assert scores[name].of([i]) == pytest.approx(alone[name], rel=1e-5), name
