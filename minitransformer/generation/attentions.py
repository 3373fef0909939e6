"""What a model attends to in a text: a finished hypothesis is read once more, as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def attentions_of(
    model: Any, input_ids: Sequence[int], prefix: Sequence[int], ids: Sequence[int]
) -> dict[str, np.ndarray]:
    """The weights (heads, queries, keys) of each attention layer, by its name; of a model without any, none.

    Query t is the t-th token that the layer reads. A decoder's are its start token, the prefix and the new
    ids, or the prompt and the new ids (of more than the model has positions, the last ones).
    """
    weights: dict[str, np.ndarray] = {}

    def observe(name: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], output: Any) -> None:
            weights[name] = module.attention_weights(*args[:4]).numpy()[0]

        return hook

    layers = {
        name: each for name, each in model.named_modules() if name and hasattr(each, "attention_weights")
    }
    handles = [layer.register_forward_hook(observe(name)) for name, layer in layers.items()]
    try:
        if model.is_encoder_decoder:
            source = np.array([input_ids])
            target = np.array([[model.decoder_start_token_id, *prefix, *ids]])
            if not layers and hasattr(model, "attention_weights"):  # one attention, without heads (Seq2Seq)
                if getattr(model.config, "attention", None) == "none":
                    return {}
                return {"attention": model.attention_weights(source, target).numpy()}
            model.decode(target, model.encode(source), model.padding_mask(source))
        else:
            model.states(np.array([[*input_ids, *ids][-(model.max_length or 0) :]]))
    finally:
        for handle in handles:
            handle.remove()
    return weights
