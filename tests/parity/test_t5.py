"""T5 against Hugging Face's, with the same random weights."""

import numpy as np
import pytest

from minitransformer.positions import RelativePositionBias

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(4, 20), (8, 16), (31, 100), (32, 128), (64, 2000)]
)
def test_each_distance_has_their_bucket(num_buckets, max_distance, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = np.arange(-2500, 2501)
    theirs = T5Attention._relative_position_bucket(
        torch.tensor(distance), bidirectional, num_buckets, max_distance
    )
    ours = RelativePositionBias(2, num_buckets, max_distance, bidirectional).buckets(distance)
    np.testing.assert_array_equal(ours, theirs.numpy())
