"""Attention weights and module outputs, recorded while a model runs.

    with record_attention(model) as maps:
        logits = model(source, target)
    maps["decoder.layers.0.cross_attention"]        # (B, H, T, S)

The fused kernels do not keep the weights, so each attention layer computes them a second time with
`attention_weights`. The results of the model are unchanged, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn, no_grad
from minigrad.core.tensor import constant

from ..errors import UserError, check_integer, did_you_mean, truncated_repr
from ..layers.attention import MultiHeadAttention
from ..layers.encoder_decoder import Decoder, Encoder


class Calls:
    """Recorded values by module path. `found` has a value, or a list if a module is called several times."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.calls: dict[str, list[Any]] = {}

    def add(self, path: str, value: Any) -> None:
        calls = self.calls.setdefault(path, [])
        calls.append(value)
        self.found[path] = calls if len(calls) > 1 else value


# ---------------------------------------------------------------- attention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Any]]:
    """A context that records the attention weights of all heads: a dict from a module's path to a Tensor.

    The weights are (B, H, T, S), of T queries and S keys, before dropout, on the model's device. They have no
    gradient. A module that is called several times, as in generation, has a list of tensors. With a cache,
    the queries are the new tokens of each call. The attention of a `Seq2Seq` has one head. All modules that
    are a `MultiHeadAttention` are recorded; a subclass that overrides `attend` must override `weights`, too.
    A step that `mg.capture` replays runs no Python code, and records nothing.

    The model's outputs, gradients and random numbers are the same as without recording, bit for bit.

    >>> from minitransformer import GPT, GPTConfig, record_attention
    >>> model = GPT(GPTConfig(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    >>> with record_attention(model) as weights:
    ...     logits = model(np.array([[5, 6, 7]]))
    >>> {path: w.shape for path, w in weights.items()}
    {'layers.layers.0.self_attention': (1, 2, 3, 3)}
    """
    calls = Calls()
    modules = _named_modules(model)
    is_ours = {type(m).__module__.partition(".")[0] for _, m in modules} <= {"minigrad", "minitransformer"}
    if not is_ours and not any(isinstance(m, MultiHeadAttention) for _, m in modules):
        raise UserError(
            f"{type(model).__name__} has no attention layer whose weights could be recorded.\n"
            f"Attend with MultiHeadAttention, or return the weights of your own attention."
        )
    with ExitStack() as stack:
        for path, module in modules:
            if isinstance(module, MultiHeadAttention):
                stack.callback(setattr, module, "record", module.record)
                module.record = partial(calls.add, path)
            elif getattr(module, "attends", False):
                _hook(stack, module, partial(_add_recurrent, calls, path))
        yield calls.found


def _add_recurrent(calls: Calls, path: str, module: nn.Module, args: tuple, output: Any) -> None:
    """Record the weights (B, T, S) that a recurrent decoder's attention returns as its third result."""
    calls.add(path, output[2].detach()[:, None])


def attention_entropy(weights: Any, mask: Any = None) -> Float[np.ndarray, " H"]:
    """The mean entropy of each head's attention, in bits: 0 for one token, log2(n) for n equal weights.

    `weights` are (B, H, T, S) or (H, T, S). `mask` (B, T) is True for the queries to include (Clark et al.
    2019, "What Does BERT Look At?", section 3.3).

    >>> from minitransformer import attention_entropy
    >>> attention_entropy(mg.tensor([[[[0.5, 0.5], [1.0, 0.0]]]]))
    array([0.5])
    """
    weights = weights_array(weights)
    return _mean_over_queries(-(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1), weights, mask)


def attention_distance(weights: Any, mask: Any = None, past: int = 0) -> Float[np.ndarray, " H"]:
    """How far each head looks, in tokens: the mean of |position of query - position of key|, by weight.

    `weights` are (B, H, T, S) or (H, T, S). `mask` (B, T) is True for the queries to include. The first query
    is at position `past` (Vig and Belinkov 2019, "Analyzing the Structure of Attention in a Transformer
    Language Model").
    """
    weights = weights_array(weights)
    queries, keys = weights.shape[-2:]
    distance = np.abs(np.arange(keys) - np.arange(past, past + queries)[:, None])
    return _mean_over_queries((weights * distance).sum(-1), weights, mask)


def weights_array(weights: Any) -> Float[np.ndarray, "B H T S"]:
    if isinstance(weights, (list, tuple)):
        raise UserError(
            f"attention weights must be an array (B, H, T, S), got a list of {len(weights)}.\n"
            f"Pass one of its elements: the list has the weights of several calls."
        )
    array = (weights.numpy() if isinstance(weights, Tensor) else np.asarray(weights)).astype(np.float64)
    if array.ndim < 3:
        raise UserError(f"attention weights of shape {array.shape}.\nPass (batch, heads, queries, keys).")
    return array.reshape(-1, *array.shape[-3:])


def _mean_over_queries(values: Float[np.ndarray, "B H T"], weights: Any, mask: Any) -> np.ndarray:
    """The mean of `values` for each head, over the queries in `mask` that attend to at least one key."""
    real = weights.sum(-1) > 0
    if mask is not None:
        mask = mask.numpy() if isinstance(mask, Tensor) else np.asarray(mask)
        batch, queries = values.shape[0], values.shape[2]
        if mask.shape != (batch, queries):
            raise UserError(
                f"mask must have shape {(batch, queries)}, got {mask.shape}.\n"
                f"Pass True for each query that is not padding."
            )
        real = real & mask.astype(bool)[:, None]
    return (values * real).sum((0, 2)) / np.maximum(real.sum((0, 2)), 1)


# ---------------------------------------------------------------- outputs of modules


@contextmanager
def record_activations(model: nn.Module, *patterns: str) -> Iterator[dict[str, Any]]:
    """A context that records the outputs of modules: a dict from a module's path to what it returned.

    Modules are selected by patterns of `fnmatch`: "encoder.layers.*" also matches everything inside the
    layers, "encoder.layers.[0-9]" only the layers. Without a pattern, all modules are recorded. Outputs are
    not copied, and have gradients: `mg.autograd.grad(loss, outputs["decoder.layers.0"])`. A module that is
    called several times has a list of its outputs.
    """
    calls = Calls()
    modules = _named_modules(model)
    handles = [
        module.register_forward_hook(lambda _, args, output, path=path: calls.add(path, output))
        for path, module in (_match_modules(modules, patterns, "module") if patterns else modules)
    ]
    try:
        yield calls.found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def ablate_heads(model: nn.Module, heads: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """A context in which heads are switched off: their output, before W_O, is zero.

        with ablate_heads(model, {"decoder.layers.0.self_attention": [1, 3]}):
            ...

    `heads` maps the paths of modules to the indices of heads, from 0. Paths may be patterns of `fnmatch`,
    such as "encoder.layers.*.self_attention" (Michel et al. 2019, "Are Sixteen Heads Really Better than
    One?", section 2).
    """
    attentions = [(p, m) for p, m in _named_modules(model) if isinstance(m, MultiHeadAttention)]
    chosen: dict[str, set[int]] = {}
    if not isinstance(heads, Mapping) or not all(isinstance(each, Iterable) for each in heads.values()):
        raise UserError(
            f"expected heads by module, got {truncated_repr(heads)}.\nPass a dict such as {{path: [0, 2]}}."
        )
    for pattern, numbers in {pattern: list(each) for pattern, each in heads.items()}.items():
        for path, module in _match_modules(attentions, (pattern,), "attention module with heads"):
            for n in numbers:
                check_integer(f"a head of {path}", n, 0, module.num_heads)
            chosen.setdefault(path, set()).update(numbers)
    with ExitStack() as stack:
        for path, module in attentions:
            if path in chosen:
                is_off = np.isin(np.arange(module.num_heads), list(chosen[path])).repeat(module.head_dim)
                zero = lambda _, args, is_off=is_off: (args[0].masked_fill(constant(is_off, args[0]), 0.0),)
                stack.callback(module.out_proj.register_forward_pre_hook(zero).remove)
        yield


def logit_lens(model: nn.Module, *inputs: Any, **named_inputs: Any) -> dict[str, Float[Tensor, "B *T V"]]:
    """What the model would predict after each layer (nostalgebraist 2020, "interpreting GPT: the logit
    lens").

    The final norm and the output layer are applied to the residual stream. The function takes the inputs of
    `model(...)`. The result has the probabilities before the first layer, "embedding", and after each layer
    of the decoder (or of the only stack), by the layer's path. The last are the model's output. The model
    runs in evaluation mode, and each layer runs once.
    """
    stacks = [(path, m) for path, m in _named_modules(model) if isinstance(m, (Encoder, Decoder))]
    if not stacks:
        raise UserError(
            f"{type(model).__name__} has no layers with a residual stream.\n"
            f"Pass a model with an Encoder or a Decoder of minitransformer.layers."
        )
    path, stack = stacks[-1]
    streams: dict[str, Tensor] = {}
    outputs: dict[nn.Module, Any] = {}
    probabilities: dict[str, Tensor] = {}

    def before_layers(layer: nn.Module, args: tuple[Any, ...]) -> None:
        streams["embedding"] = args[0]

    def after_layer(name: str, layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        streams[name] = output

    def after_stack(stack: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        outputs[stack] = output

    def run() -> Tensor:
        output = model(*inputs, **named_inputs)
        return (output if isinstance(output, Tensor) else output.logits).softmax(-1)

    with ExitStack() as mode, no_grad():
        mode.callback(model.train, model.training)
        model.eval()
        with ExitStack() as hooks:
            hooks.callback(stack.layers[0].register_forward_pre_hook(before_layers).remove)
            for i, layer in enumerate(stack.layers):
                _hook(hooks, layer, partial(after_layer, f"{path}.layers.{i}".lstrip(".")))
            for _, each in stacks:
                _hook(hooks, each, after_stack)
            last = run()
        for name, x in [*streams.items()][:-1]:
            outputs[stack] = x if stack.norm is None else stack.norm(x)
            with ExitStack() as shortened:
                for module, output in outputs.items():
                    shortened.enter_context(_replace_output(module, output))
                probabilities[name] = run()
    return {**probabilities, next(reversed(streams)): last}


@contextmanager
def _replace_output(module: nn.Module, output: Any) -> Iterator[None]:
    """A context in which a call of the module returns `output` and computes nothing."""
    own = vars(module).get("forward")
    vars(module)["forward"] = lambda *args, **kwargs: output
    try:
        yield
    finally:
        if own is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own


# ---------------------------------------------------------------- common parts


def _named_modules(model: Any) -> list[tuple[str, Any]]:
    if not isinstance(model, nn.Module):
        raise UserError(f"expected a model, got {type(model).__name__}.\nPass an nn.Module.")
    return list(model.named_modules())


def _hook(stack: ExitStack, module: nn.Module, hook: Callable[..., Any]) -> None:
    """Register a forward hook on the module. The stack removes it."""
    stack.callback(module.register_forward_hook(hook).remove)


def _match_modules(
    modules: Sequence[tuple[str, Any]], patterns: Sequence[str], what: str
) -> list[tuple[str, Any]]:
    """The modules whose path matches one of the patterns. Raise a UserError if a pattern matches none."""
    paths = [path for path, _ in modules]
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise UserError(
                f"expected the path of a module, got {truncated_repr(pattern)}.\n"
                f"Pass a string: a path, or a pattern."
            )
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise UserError(
                f"no {what} matches {pattern!r}.{did_you_mean(pattern, paths)}\n"
                f"Pass a path of model.named_modules(), or a pattern such as 'encoder.layers.*'."
            )
    return [(path, m) for path, m in modules if any(fnmatchcase(path, pattern) for pattern in patterns)]
