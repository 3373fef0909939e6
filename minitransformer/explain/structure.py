"""The description of a model's stacks and layers, from which the page computes and explains each number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minigrad import nn

from ..layers.config import GATED
from ..layers.positions import NoPositions, SinusoidalPositions
from ..models.t5 import FEED_FORWARDS


def structure(model: Any, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Describe a model's stacks, in the order of computation, and its output layer."""
    if hasattr(model, "rnn"):
        return {"stacks": [_recurrent_stack(model)], "output": _output(model) | {"labels": None}}
    names = ["encoder", "decoder"] if model.is_encoder_decoder else []
    names = names or ["layers" if hasattr(model, "layers") else "encoder"]
    output = _output(model) | {"labels": list(labels) or None}
    return {"stacks": [_stack(model, name) for name in names], "output": output}


def _recurrent_stack(model: Any) -> dict[str, Any]:
    """Describe recurrent layers, which have neither attention nor norms nor positions."""
    config = model.config
    return {
        "name": "layers",
        "recurrent": config.rnn_type,
        "layers": config.num_layers,
        "causal": False,
        "cross": False,
        "finalNorm": False,
        "heads": 0,
        "rotary": None,
        "bias": None,
        "width": config.embedding_dim,
        "hidden": config.hidden_size,
        "embedding": "embedding.weight",
        "factor": model.embedding.factor,
        "segments": False,
        "embeddingNorm": None,
        "positions": "none",
        "halves": False,
        "concatenate": False,
    }


def _stack(model: Any, name: str) -> dict[str, Any]:
    stack = getattr(model, name)
    layer = next(iter(stack.layers.children()))
    attention = layer.self_attention
    bias = stack.positions
    positions = getattr(model, f"{name}_positions", None) or getattr(model, "positions", None)
    own = name == "decoder" and getattr(model, "target_embedding", None) is not None
    embedding = "target_embedding" if own else "embedding"
    return {
        "name": name,
        "layers": len(list(stack.layers.children())),
        "causal": layer.is_causal,
        "cross": hasattr(layer, "cross_attention"),
        "normFirst": layer.residual1.norm_first,
        "norm": _norm(layer.residual1.norm),
        "finalNorm": stack.norm is not None,
        "heads": attention.num_heads,
        "kvHeads": attention.num_kv_heads,
        "headWidth": attention.head_dim,
        "scale": attention.scale,
        "rotary": attention.rope_theta,
        "bias": None if bias is None else "alibi" if not hasattr(bias, "weight") else "t5",
        "activation": _activation(model),
        "gated": layer.feed_forward.linear3 is not None,
        "width": attention.d_model,
        "embedding": f"{embedding}.weight" if hasattr(model, embedding) else None,
        "factor": getattr(getattr(model, embedding, None), "factor", None),
        "segments": getattr(model, "token_types", None) is not None,
        "embeddingNorm": _embedding_norm(model, name),
        "positions": _positions(positions),
        "positionWeight": f"{_position_path(model, name)}.weight",
        "halves": getattr(positions, "halves", False),
        "concatenate": getattr(positions, "concatenate", False),
    }


def _embedding_norm(model: Any, name: str) -> str | None:
    """The name of the norm before the layers, which only BERT and BART have."""
    if hasattr(model, "norm"):
        return "norm"
    return f"{name}_norm" if hasattr(model, f"{name}_norm") else None


def _norm(norm: Any) -> dict[str, Any]:
    kind = "layer" if isinstance(norm, nn.LayerNorm) else "rms"
    return {"kind": kind, "bias": getattr(norm, "bias", None) is not None}


def _activation(model: Any) -> str:
    config = model.config
    if hasattr(config, "feed_forward_proj"):  # T5
        name = FEED_FORWARDS[config.feed_forward_proj]
    else:
        keys = ("activation", "activation_function", "hidden_act")
        name = next(getattr(config, key) for key in keys if hasattr(config, key))
    name = GATED.get(name, name)
    return "gelu_tanh" if name == "gelu_new" else name


def _positions(positions: Any) -> str:
    if positions is None or isinstance(positions, NoPositions):
        return "none"
    return "sinusoidal" if isinstance(positions, SinusoidalPositions) else "learned"


def _position_path(model: Any, name: str) -> str:
    return f"{name}_positions" if hasattr(model, f"{name}_positions") else "positions"


def _output(model: Any) -> dict[str, Any]:
    """Describe the output layer: the matrix of the logits, its bias, and the head before it."""
    names = dict(model.named_parameters())
    if hasattr(model, "head"):  # a BERT or a ViT
        kind = getattr(model.config, "head", "image_classification")
        if kind == "similarity":  # runs.py adds the vectors to compare with
            return {"head": kind, "weight": "head.candidates", "bias": None, "pooler": None, "factor": None}
        matrix = "embedding.weight" if kind == "masked_lm" else _classifier(names)
        bias = "head.words.bias" if kind == "masked_lm" else matrix.replace("weight", "bias")
        pooler = model.config.pooler_hidden_act if "head.pooler.weight" in names else None
        return {"head": kind, "weight": matrix, "bias": bias, "pooler": pooler, "factor": None}
    own = "target_embedding" if getattr(model, "target_embedding", None) is not None else "embedding"
    tied = "output.weight" not in names
    matrix = f"{own}.weight" if tied else "output.weight"
    bias = f"{own}.output_bias" if tied else "output.bias"
    if "final_logits_bias" in model.state_dict():  # BART
        bias = "final_logits_bias"
    is_scaled = getattr(model.config, "scales_outputs", False)  # T5
    factor = model.config.d_model**-0.5 if is_scaled else None
    return {
        "head": None,
        "weight": matrix,
        "bias": bias if bias in model.state_dict() else None,
        "factor": factor,
    }


def _classifier(names: Any) -> str:
    """The name of the matrix that computes a head's logits, which is its last one."""
    return [n for n in names if n.startswith("head.") and n.endswith("weight") and "pooler" not in n][-1]
