"""Graphs of large models."""

import pytest

import minigrad as mg
from minigrad.graph import trace
from minigrad.graph.page import to_html
from tests.graph.pages import transformer
from tests.graph.traces import assert_equal, small_transformer, sums_of_contributions, transformer_loss


def test_a_large_transformer_takes_a_megabyte_at_most(open_page):
    with mg.fused(False):
        graph = transformer(64, layers=5, vocabulary=100)
    text = graph.to_html()
    assert len(graph.vertices) > 1000
    assert len(text.encode()) <= 1_000_000
    page = open_page(text)
    assert page.page.locator("#canvas .box").count() <= 40
    smaller = to_html(graph.folding, limit=len(text.encode()) - 100_000)
    assert len(smaller.encode()) <= len(text.encode()) - 100_000
    unfolded = graph.expand().to_html()  # where no script runs its picture is the folded one
    assert len(unfolded.encode()) <= 1_000_000
    assert 1 < unfolded.split("<main>")[1].split("<aside")[0].count("<rect") < 100


@pytest.mark.parametrize("norm_first", [False, True])
def test_contributions_add_up_in_a_transformer(norm_first):
    model = small_transformer(norm_first)
    graph = trace(transformer_loss(model), model, whole=10**6)
    seen = 0
    for _, gradient, total in sums_of_contributions(graph):
        assert_equal(total, gradient, 1e-4, 1e-7)
        seen += 1
    assert seen > 100
