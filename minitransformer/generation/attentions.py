"""What a model attends to in a text: a finished hypothesis is read once more, as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inspection.recording import record_attention


def attentions_of(
    model: Any, input_ids: Sequence[int], prefix: Sequence[int], ids: Sequence[int]
) -> dict[str, np.ndarray]:
    """The weights (heads, queries, keys) of each attention layer, by its name; of a model without any, none.

    Query t is the t-th token that the layer reads. A decoder's are its start token, the prefix and the new
    ids, or the prompt and the new ids (of more than the model has positions, the last ones).
    """
    with record_attention(model) as maps:
        if model.is_encoder_decoder:
            source = np.array([input_ids])
            target = np.array([[model.decoder_start_token_id, *prefix, *ids]])
            model.decode(target, model.encode(source), model.padding_mask(source))
        else:
            model.states(np.array([[*input_ids, *ids][-(model.max_length or 0) :]]))
    return {path: weights.numpy()[0] for path, weights in maps.items()}
