"""What a model attends to in a text: a finished hypothesis is passed through the model once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inspection.recording import record_attention


def compute_attentions(
    model: Any, input_ids: Sequence[int], prefix: Sequence[int], ids: Sequence[int]
) -> dict[str, np.ndarray]:
    """The weights (heads, queries, keys) of each attention layer by name; empty if the model has none.

    Query t is the t-th token that the layer reads. A decoder reads its start token, the prefix and the new
    ids; a decoder-only model reads the prompt and the new ids, or the last of these that fit.
    """
    with record_attention(model) as maps:
        if model.is_encoder_decoder:
            source = np.array([input_ids])
            target = np.array([[model.decoder_start_token_id, *prefix, *ids]])
            model.decode(target, model.encode(source), model.padding_mask(source))
        else:
            model.states(np.array([[*input_ids, *ids][-(model.max_length or 0) :]]))
    return {path: weights.numpy()[0] for path, weights in maps.items()}
