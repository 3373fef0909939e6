"""Layers whose matrices are 8-bit integers with a scale for each row, for inference.

`quantize` replaces the layers of a model. A float32 matrix shrinks to a quarter of its size. Norms, biases
and positions are not quantized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn
from minigrad.core.tensor import as_tensor_like
from minigrad.nn import functional as F
from minigrad.nn.shapes import shapes_only
from minigrad.ops.quantized import quantize_rows, quantized_linear

from ..errors import UserError
from .attention import MultiHeadAttention
from .embeddings import TokenEmbedding, token_ids

SETTINGS = (
    "d_model", "num_heads", "num_kv_heads", "head_dim", "widths", "scale", "dropout", "rope_theta",
    "rope_scaling", "record",
)  # fmt: skip
FEW_ROWS = 256  # embeddings with fewer rows, such as segment embeddings, are not quantized


class QuantizedLinear(nn.Module):
    """x Wᵀ + b, in which row i of W is scale[i] * weight[i] (see `minigrad.ops.quantized`)."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        integers, scale = quantize_rows(weight.array)
        self.register_buffer("weight", Tensor(integers))
        self.register_buffer("scale", Tensor(scale))
        self.register_buffer("bias", None if bias is None else Tensor(bias.numpy()))

    def extra_repr(self) -> str:
        return "in_features={1}, out_features={0}, 8 bits".format(*self.weight.shape)

    def forward(self, x: Float[Tensor, "..."], rows: slice = slice(None)) -> Float[Tensor, "..."]:
        """x Wᵀ + b with the given rows of W and b, which select projections that are stacked in W."""
        bias = None if self.bias is None else self.bias[rows]
        return quantized_linear(x, self.weight[rows], self.scale[rows], bias)


class QuantizedAttention(MultiHeadAttention):
    """Multi-head attention with 8-bit projections."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        copy_settings(attention, self)
        self.in_proj = QuantizedLinear(attention.in_proj_weight, attention.in_proj_bias)
        out_proj: Any = QuantizedLinear(attention.out_proj.weight, attention.out_proj.bias)
        self.out_proj = out_proj

    def in_projection(self, x: Tensor, rows: slice) -> Tensor:
        return self.in_proj(x, rows)


class QuantizedEmbedding(TokenEmbedding):
    """A token embedding and output layer with an 8-bit table."""

    scale: Tensor

    def __init__(self, embedding: TokenEmbedding) -> None:
        nn.Module.__init__(self)
        self.factor = embedding.factor
        integers, scale = quantize_rows(embedding.weight.array)
        self.register_buffer("weight", Tensor(integers))
        self.register_buffer("scale", Tensor(scale))
        bias = embedding.output_bias
        self.register_buffer("output_bias", None if bias is None else Tensor(bias.numpy()))

    def forward(self, ids: Any) -> Float[Tensor, "B T D"]:
        ids = as_tensor_like(token_ids(ids), self.weight)
        rows = F.embedding(ids, self.weight).to(self.scale.dtype)
        x = rows * self.scale[ids].unsqueeze(-1)
        return x if self.factor is None else x * self.factor

    def logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return quantized_linear(x[..., : self.weight.shape[1]], self.weight, self.scale, self.output_bias)


def copy_settings(attention: MultiHeadAttention, new: MultiHeadAttention) -> None:
    """Copy the sizes and settings of `attention` to `new`, without the parameters."""
    for name in SETTINGS:
        setattr(new, name, getattr(attention, name))


def replace_layers(model: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]) -> None:
    """Replace each layer with `replacement(layer)`, unless that is None."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            new = replacement(child)
            if new is not None:
                setattr(parent, name, new.train(child.training))


def quantize(model: Any) -> Any:
    """Replace the matrices of a model with 8-bit integers. Return the model, in evaluation mode.

        model = quantize(load_pretrained("gpt2"))

    The matrices cannot be trained, but gradients flow through them to inputs and states.
    """
    if any(".lora_" in name for name, _ in model.named_parameters()):
        raise UserError("a model with adapters cannot be quantized.\nMerge them first: merge_lora(model).")
    replace_layers(model, _replacement)
    return model.eval()


def _replacement(module: Any) -> nn.Module | None:
    """The 8-bit layer that replaces a layer, or None for a layer that is not quantized."""
    match module:
        case QuantizedAttention() | QuantizedEmbedding():
            return None
        case MultiHeadAttention():
            return QuantizedAttention(module)
        case TokenEmbedding() if len(module.weight) >= FEW_ROWS:
            return QuantizedEmbedding(module)
        case nn.Linear():
            return QuantizedLinear(module.weight, module.bias)
    return None


def stored_rows(model: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The integers and scales of a quantized model's matrices, by their names in the original model."""
    state = model.state_dict()
    return {
        _name_before(name): (tensor.numpy(), state[scale].numpy())
        for name, tensor in state.items()
        if name.endswith("weight") and (scale := f"{name.removesuffix('weight')}scale") in state
    }


def dequantize(model: Any) -> Any:
    """A float32 model with the values of a quantized one, for code that reads the matrices of layers."""
    rows = stored_rows(model)
    state = {_name_before(name): tensor for name, tensor in model.state_dict().items()}
    with shapes_only():
        found = type(model)(model.config)
    for name, (integers, scale) in rows.items():
        state[name] = Tensor(integers * scale[:, None])
    found.load_state_dict({name: state[name] for name in found.state_dict()}, assign=True)
    return found.eval()


def _name_before(name: str) -> str:
    return name.replace(".in_proj.", ".in_proj_")


def bytes_of(model: Any) -> int:
    """The size of a model's parameters and buffers in bytes."""
    return sum(np.asarray(tensor.array).nbytes for tensor in model.state_dict().values())


def count_weights(model: Any) -> int:
    """The number of parameters that a model had before its layers were quantized."""
    layers = [m for m in model.modules() if isinstance(m, QuantizedLinear | QuantizedEmbedding)]
    stored = (tensor for layer in layers for name, tensor in layer.named_buffers() if name != "scale")
    return model.num_parameters() + sum(tensor.numel() for tensor in stored)


def is_quantized(model: Any) -> bool:
    """Whether the model has layers that `quantize` made."""
    return any(isinstance(module, QuantizedLinear | QuantizedEmbedding) for module in model.modules())


def check_not_quantized(model: Any, what: str) -> None:
    """Raise a UserError if the model has 8-bit layers, which cannot be trained or saved.

    `what` is the participle in the error, such as "trained".
    """
    if is_quantized(model):
        raise UserError(f"a model with 8-bit weights cannot be {what}.\nLoad it again without quantizing it.")
