"""What a graph keeps between forward and backward is no more than what torch keeps for the same program."""

import pytest

from benchmarks.memory import ours, theirs
from benchmarks.programs import PROGRAMS

pytest.importorskip("torch")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_graphs_retain_no_more_memory_than_pytorch(name):
    assert ours(PROGRAMS[name]) <= theirs(PROGRAMS[name])
