"""Memory of attention on long sequences."""

import tracemalloc

import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.nn import functional as F
from tests.kernel_sets import BOTH
from tests.kernels.test_numpy_and_numba import draw


@pytest.mark.parametrize("which", BOTH)
def test_attention_memory_grows_linearly_with_length(which):
    def peak(length):
        q, k, v = (mg.tensor(draw(1, 2, length, 8, seed=i), requires_grad=True) for i in range(3))
        with kernels.use(which):
            F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
            tracemalloc.start()
            try:
                F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    short, long = peak(2048), peak(8192)
    assert long < 4.5 * short + 4 * 2**20  # 4 times the length
    assert long < 8192 * 8192  # a quarter of one T x T buffer of one head
