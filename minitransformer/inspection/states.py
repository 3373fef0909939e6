"""The hidden states of each layer of a model, and how far its heads look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn, no_grad

from ..errors import UserError, counted, truncated_repr
from ..layers.encoder_decoder import Decoder, Encoder
from .recording import attention_distance, record_activations, record_attention


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """A context with the model in evaluation mode, and without gradients."""
    before = model.training
    model.eval()
    try:
        with no_grad():
            yield
    finally:
        model.train(before)


def layer_states(model: nn.Module, *inputs: Any, **named_inputs: Any) -> dict[str, Float[Tensor, "B T D"]]:
    """The residual stream before the first layer, "embedding", and after each layer, by the layer's path.

    It takes the inputs of `model(...)`. If the model has an encoder and a decoder, the first states of each
    are "encoder.embedding" and "decoder.embedding". The final norm is not applied. The model runs in
    evaluation mode, without gradients.
    """
    stacks = {path: m for path, m in model.named_modules() if isinstance(m, (Encoder, Decoder))}
    if not stacks:
        raise UserError(
            f"{type(model).__name__} has no layers with a residual stream.\n"
            f"Pass a model with an Encoder or a Decoder of minitransformer.layers."
        )
    embeddings = {path: f"{path}.embedding" if len(stacks) > 1 else "embedding" for path in stacks}
    layers = {
        path: [f"{path}.layers.{i}".lstrip(".") for i in range(len(m.layers))] for path, m in stacks.items()
    }
    embedded: dict[str, Tensor] = {}
    with ExitStack() as hooks:
        for path, stack in stacks.items():
            keep = lambda _, args, path=path: embedded.update({path: args[0]})
            hooks.callback(stack.layers[0].register_forward_pre_hook(keep).remove)
        outputs = hooks.enter_context(record_activations(model, *chain(*layers.values())))
        hooks.enter_context(evaluation(model))
        model(*inputs, **named_inputs)
    found: dict[str, Tensor] = {}
    for path in stacks:
        found[embeddings[path]] = embedded[path]
        found |= {name: outputs[name] for name in layers[path]}
    return found


def attention_distances(
    model: nn.Module, sentences: Sequence[Any], pattern: str = "*self_attention"
) -> dict[str, Float[np.ndarray, " H"]]:
    """How far each head looks in these sentences, in tokens: the mean `attention_distance`, by module path.

    A sentence is a list of ids, or a tuple of the model's inputs, such as (source, target). The model reads
    one sentence at a time, without padding, and all queries have the same weight. Uniform attention to n
    tokens has a distance of (n^2 - 1) / 3n; uniform causal attention has (n - 1) / 4.
    """
    totals: dict[str, Any] = {}
    queries: dict[str, int] = {}
    for sentence in sentences:
        inputs = sentence if isinstance(sentence, tuple) else (sentence,)
        with evaluation(model), record_attention(model) as maps:
            model(*(np.array([ids]) for ids in inputs))
        for path, weights in maps.items():
            if fnmatchcase(path, pattern):
                n = weights.shape[-2]
                totals[path] = totals.get(path, 0) + n * attention_distance(weights)
                queries[path] = queries.get(path, 0) + n
    if not totals:
        raise UserError(
            f"no attention of {type(model).__name__} matches {truncated_repr(pattern)} in "
            f"{counted(len(sentences), 'sentence')}.\n"
            f"Pass sentences, and a pattern for the paths of its attention."
        )
    return {path: total / queries[path] for path, total in totals.items()}
