"""Records every number of one pass through a model, by doing the model's computation in small steps.

The model computes the scores, softmax and weighted sum of all heads in one kernel. Here each step is recorded
under a name such as `encoder.layers.0.self_attention.scores`, with its gradient. Arrays have no batch axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F
from minigrad.ops.shaping import cat, stack
from minigrad.ops.stacking import unbind

from ..layers.attention import MultiHeadAttention
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import FeedForward, Residual
from ..layers.positions import NoPositions, Positions
from ..layers.relative_positions import RotaryScaling


@dataclass(frozen=True)
class Switches:
    """Switches for parts of the computation; turning one off shows what it is for."""

    causal: bool = True  # False: tokens also attend to later ones
    positions: bool = True  # False: nothing is added to the embeddings
    scale: bool = True  # False: scores are not divided by sqrt(d_k)
    memory: bool = True  # False: a recurrent layer starts every step with a state of zeros
    ablated: Mapping[str, Sequence[int]] = field(default_factory=dict)  # module path -> heads to zero


@dataclass
class Gradients:
    """The gradients of a loss, the mean cross-entropy of the chosen positions, by name."""

    loss: float
    losses: np.ndarray  # one for each position
    activations: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]


@dataclass
class Record:
    """The activations of a pass by name, in the order of computation, and the inputs of the pass."""

    model: Any
    source: list[Any]  # token ids, or the pixels of an image for a ViT
    target: list[int] | None  # the decoder's input, which starts with the start token
    tensors: dict[str, Tensor | list[Tensor]]  # a recurrent layer has a list, with a tensor for each step

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: _array_of(x, Tensor.numpy) for name, x in self.tensors.items()}

    def backward(self, labels: Sequence[int], positions: Sequence[int] | None = None) -> Gradients:
        """Return the gradients of the mean cross-entropy of `labels` at `positions` (None: all)."""
        chosen = list(range(len(labels))) if positions is None else list(positions)
        logits = cast(Tensor, self.tensors["logits"])
        losses = F.cross_entropy(logits, mg.tensor(np.asarray(labels)), reduction="none")
        loss = losses[np.array(chosen)].mean()
        weights = dict(self.model.named_parameters())
        every = [*self.tensors.values(), *weights.values()]
        leaves = [x for named in every for x in (named if isinstance(named, list) else [named])]
        found = iter(mg.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True))
        gradient = lambda x: np.zeros(x.shape, np.float32) if (g := next(found)) is None else g.numpy()
        return Gradients(
            loss.item(), losses.numpy(),
            {name: _array_of(x, gradient) for name, x in self.tensors.items()},
            {name: _array_of(x, gradient) for name, x in weights.items()},
        )  # fmt: skip


def _array_of(x: Tensor | list[Tensor], f: Callable[[Tensor], np.ndarray]) -> np.ndarray:
    """Apply f to a tensor, or to the tensors of all steps, as rows of an array."""
    return np.stack([f(step) for step in x]) if isinstance(x, list) else f(x)


def record(
    model: Any,
    source: Sequence[Any],
    target: Sequence[int] | None = None,
    switches: Switches = Switches(),
) -> Record:
    """Record one pass of token ids through a model, without dropout. An encoder-decoder also reads `target`.

    A ViT reads the flattened pixels of an image (C, H, W) as the `source`.
    """
    pass_ = _Pass(model, switches)
    with mg.enable_grad():
        if model.is_encoder_decoder:
            memory = pass_.stack("encoder", pass_.embed("encoder", source))
            states = pass_.stack("decoder", pass_.embed("decoder", target or ()), memory)
        else:
            name = "layers" if hasattr(model, "layers") or hasattr(model, "rnn") else "encoder"
            embed = pass_.embed_patches if hasattr(model, "patches") else pass_.embed
            stack = pass_.recurrent_stack if hasattr(model, "rnn") else pass_.stack
            states = stack(name, embed(name, source))
        pass_.keep("probabilities", F.softmax(pass_.keep("logits", pass_.logits(states)), -1))
    return Record(model, list(source), None if target is None else list(target), pass_.tensors)


class _Pass:
    """The computation of a model in small steps, which keeps each result under a name."""

    def __init__(self, model: Any, switches: Switches) -> None:
        self.model = model
        self.switches = switches
        self.tensors: dict[str, Tensor | list[Tensor]] = {}

    def keep(self, name: str, x: Tensor) -> Tensor:
        kept = x if x.requires_grad else x.detach().requires_grad_()
        self.tensors[name] = kept
        return kept

    def keep_step(self, name: str, x: Tensor) -> Tensor:
        """Append a tensor to the list of an array that a recurrent layer computes step by step."""
        cast(list, self.tensors.setdefault(name, [])).append(x)
        return x

    # ------------------------------------------------------------ embeddings

    def embed(self, stack: str, ids: Sequence[int]) -> Tensor:
        """Return the embeddings (T, D) of token ids: a row of the matrix, plus a vector for the position."""
        model = self.model
        embedding: TokenEmbedding = model.embedding
        if stack == "decoder" and getattr(model, "target_embedding", None) is not None:
            embedding = model.target_embedding
        x = self.keep(f"{stack}.embedded", F.embedding(mg.tensor(np.asarray(ids)), embedding.weight))
        if embedding.factor is not None:
            x = self.keep(f"{stack}.scaled", x * embedding.factor)
        if getattr(model, "token_types", None) is not None:  # BERT: all tokens are in the first segment
            segments = model.token_types.weight[0].expand(*x.shape)
            x = x + self.keep(f"{stack}.segments", segments)
        x = self.with_positions(stack, x)
        if (norm := self.embedding_norm(stack)) is not None:
            x = self.norm(stack, norm, self.keep(f"{stack}.embedding_sum", x), "embedding_norm")
        return self.keep(f"{stack}.input", x * 1.0)

    def embed_patches(self, stack: str, pixels: Sequence[float]) -> Tensor:
        """Return the embeddings (1 + N, D) of an image: the class token, and a projection of each patch."""
        model = self.model
        c = self.model.config
        n = c.image_size // c.patch_size
        p = c.patch_size
        image = np.asarray(pixels, np.float32).reshape(c.num_channels, n, p, n, p)
        squares = self.keep("patches", mg.tensor(image.transpose(1, 3, 0, 2, 4).reshape(n * n, -1)))
        x = self.keep(f"{stack}.embedded", model.patches.projection(squares))
        first = self.keep(f"{stack}.class", model.class_token[0] * 1.0)
        x = self.with_positions(stack, self.keep(f"{stack}.tokens", cat([first, x], 0)))
        return self.keep(f"{stack}.input", x * 1.0)

    def with_positions(self, stack: str, x: Tensor) -> Tensor:
        positions = self.positions_of(stack)
        if isinstance(positions, NoPositions):
            return x
        p = positions.vectors(x, slice(0, len(x)), len(x))
        if not self.switches.positions:
            p = mg.zeros_like(p)
        p = self.keep(f"{stack}.positions", p)
        return cat([x, p], -1) if positions.concatenate else x + p

    def embedding_norm(self, stack: str) -> Any:
        """The norm that BERT and BART have after their embeddings; None for other models."""
        return getattr(self.model, "norm" if hasattr(self.model, "norm") else f"{stack}_norm", None)

    def positions_of(self, stack: str) -> Positions:
        if hasattr(self.model, f"{stack}_positions"):
            return getattr(self.model, f"{stack}_positions")
        return getattr(self.model, "positions", None) or NoPositions()

    # ------------------------------------------------------------ layers

    def stack(self, name: str, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Compute all layers of a stack, each sub-layer with its residual connection."""
        stack = getattr(self.model, name)
        bias = None
        if stack.positions is not None:
            bias = stack.positions(len(x), len(x))[0]  # (H, T, T), for ALiBi and T5
            if not self.switches.positions:
                bias = mg.zeros_like(bias)
        for i, layer in enumerate(stack.layers.children()):
            path = f"{name}.layers.{i}"
            causal = layer.is_causal and self.switches.causal
            attend = lambda x, layer=layer, path=path, causal=causal: self.attention(
                f"{path}.self_attention", layer.self_attention, x, x, causal, bias
            )
            x = self.residual(f"{path}.residual1", layer.residual1, x, attend)
            last = layer.residual2
            number = 2
            if memory is not None:
                look = lambda x, layer=layer, path=path: self.attention(
                    f"{path}.cross_attention", layer.cross_attention, x, memory
                )
                x = self.residual(f"{path}.residual2", layer.residual2, x, look)
                last = layer.residual3
                number = 3
            forward = lambda x, layer=layer, path=path: self.feed_forward(
                f"{path}.feed_forward", layer.feed_forward, x
            )
            x = self.residual(f"{path}.residual{number}", last, x, forward)
        if stack.norm is not None:
            x = self.norm(name, stack.norm, x)
        return self.keep(f"{name}.output", x * 1.0)

    def residual(self, path: str, module: Residual, x: Tensor, f: Any) -> Tensor:
        if module.norm_first:
            return self.keep(f"{path}.sum", x + f(self.norm(path, module.norm, x)))
        return self.norm(path, module.norm, self.keep(f"{path}.sum", x + f(x)))

    def norm(self, path: str, module: Any, x: Tensor, name: str = "norm") -> Tensor:
        """Compute layer norm, (x - mean) / sqrt(variance + eps) * gain + bias, or RMS norm, without mean."""
        keep = lambda part, x: self.keep(f"{path}.{name}.{part}", x)
        if isinstance(module, nn.LayerNorm):
            x = x - keep("mean", x.mean(-1, keepdim=True))
        eps = module.eps if module.eps is not None else float(np.finfo(np.float32).eps)
        rstd = keep("rstd", ((x * x).mean(-1, keepdim=True) + eps) ** -0.5)
        y = keep("normalized", x * rstd)
        if module.weight is not None:
            y = y * module.weight
        if getattr(module, "bias", None) is not None:
            y = y + module.bias
        return keep("output", y * 1.0)

    def attention(
        self, path: str, module: MultiHeadAttention, x: Tensor, memory: Tensor,
        causal: bool = False, bias: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Compute softmax(Q K^T / sqrt(d_k)) V of each head; return the concatenated heads times W_O."""
        keep = lambda name, x: self.keep(f"{path}.{name}", x)
        h = module.num_heads
        kv_heads = module.num_kv_heads
        d = module.head_dim
        w_q, w_kv = module.in_proj_weight.split(module.widths)
        b_q, b_kv = (None, None) if module.in_proj_bias is None else module.in_proj_bias.split(module.widths)
        split = lambda x, heads: x.reshape(len(x), heads, d).transpose(0, 1)  # (heads, T, d)
        q = split(F.linear(x, w_q, b_q), h)
        k, v = F.linear(memory, w_kv, b_kv).chunk(2, -1)
        k, v = split(k, kv_heads), split(v, kv_heads)
        if module.rope_theta is not None:
            q, k = (keep(f"{name}_unrotated", x) for name, x in (("q", q), ("k", k)))
            if self.switches.positions:
                q, k = (_rotate(x, module.rope_theta, module.rope_scaling) for x in (q, k))
        q = keep("q", q)
        k = keep("k", k)
        v = keep("v", v)
        if kv_heads != h:
            k, v = (x.repeat_interleave(h // kv_heads, 0) for x in (k, v))
        scores = keep("scores", q @ k.mT)  # (H, T, S)
        scaled = keep("scaled", scores * (module.scale if self.switches.scale else 1.0))
        if bias is not None:
            scaled = scaled + keep("bias", bias * 1.0)
        if causal:
            hidden = np.triu(np.ones(scaled.shape[1:], bool), 1)
            scaled = scaled.masked_fill(mg.tensor(hidden), -math.inf)
        weights = keep("weights", F.softmax(keep("masked", scaled * 1.0), -1))
        heads = weights @ v
        if off := list(self.switches.ablated.get(path, ())):
            on = np.ones((h, 1, 1), np.float32)
            on[off] = 0
            heads = heads * mg.tensor(on)
        heads = keep("heads", heads)
        concat = keep("concat", heads.transpose(0, 1).reshape(len(x), h * d))
        return keep("output", F.linear(concat, module.out_proj.weight, module.out_proj.bias))

    def feed_forward(self, path: str, module: FeedForward, x: Tensor) -> Tensor:
        """Compute the feed-forward layer, which transforms each token separately."""
        inner = module.activation(self.keep(f"{path}.linear1", module.linear1(x)))
        if module.linear3 is not None:
            inner = inner * self.keep(f"{path}.linear3", module.linear3(x))
        return self.keep(f"{path}.output", module.linear2(self.keep(f"{path}.hidden", inner)))

    # ------------------------------------------------------------ recurrent layers

    def recurrent_stack(self, name: str, x: Tensor) -> Tensor:
        """Compute recurrent layers. Each of their arrays has a row for each step."""
        for i, weights in enumerate(self.model.rnn.all_weights):
            x = self.recurrent_layer(f"{name}.{i}", x, *weights)
        return self.keep(f"{name}.output", x * 1.0)

    def recurrent_layer(
        self, path: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
    ) -> Tensor:
        """Compute h_t of every step from x_t and the state of the previous step."""
        step = {"rnn": _rnn_step, "lstm": _lstm_step, "gru": _gru_step}[self.model.config.rnn_type]
        keep = lambda name, x: self.keep_step(f"{path}.{name}", x)
        zeros = mg.zeros(w_hh.shape[1])
        states = (zeros, zeros)  # h, and c of an LSTM
        outputs = []
        for from_input in unbind(self.keep(f"{path}.from_input", F.linear(x, w_ih, b_ih))):
            h, c = states if self.switches.memory else (zeros, zeros)
            states = step(keep, from_input, keep("from_state", F.linear(h, w_hh, b_hh)), h, c)
            outputs.append(states[0])
        return stack(outputs)

    # ------------------------------------------------------------ results

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits (T, V), or the logits of the model's head."""
        model = self.model
        if hasattr(model, "patches"):
            return model.head(self.keep("head.first", states[:1]))
        if hasattr(model, "head"):  # BERT
            return self.head(model.head, states)
        if model.model_type == "t5" and model.config.scales_outputs:
            x = self.keep("head.scaled", states * model.config.d_model**-0.5)
            return model.embedding.logits(x[None])[0] if model.output is None else model.output(x)
        return model.logits(states[None])[0]

    def head(self, head: Any, states: Tensor) -> Tensor:
        """Return the logits of BERT's head: for masked words, each token, or the text (its first token)."""
        if hasattr(head, "words"):
            words = head.words
            x = self.keep("head.linear", words.linear(states))
            x = self.norm("head", words.norm, self.keep("head.hidden", words.activation(x)))
            return self.model.embedding.logits(x[None])[0] + words.bias
        if hasattr(head, "candidates"):
            x = F.normalize(self.keep("head.average", states.mean(0, keepdim=True)))
            return self.keep("head.unit", x) @ head.candidates.transpose(0, 1)
        if hasattr(head, "pooler"):
            x = self.keep("head.linear", head.pooler(self.keep("head.first", states[:1])))
            states = self.keep("head.pooled", head.activation(x))
        return head.classifier(states) if hasattr(head, "classifier") else head.next_sentence(states)


Keep = Callable[[str, Tensor], Tensor]
States = tuple[Tensor, Tensor]


def _rnn_step(keep: Keep, a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> States:
    """Compute h_t = tanh(a + b), with a = W_ih x_t + b_ih and b = W_hh h_{t-1} + b_hh."""
    return keep("hidden", (a + b).tanh()), c


def _lstm_step(keep: Keep, a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> States:
    """Compute c_t = f c_{t-1} + i g and h_t = o tanh(c_t); the gates i, f, o are sigmoids, g is a tanh."""
    i, f, g, o = (a + b).chunk(4, -1)
    i = keep("input_gate", i.sigmoid())
    f = keep("forget_gate", f.sigmoid())
    g = keep("candidate", g.tanh())
    o = keep("output_gate", o.sigmoid())
    c = keep("cell", keep("kept", f * c) + keep("added", i * g))
    return keep("hidden", o * keep("cell_tanh", c.tanh())), c


def _gru_step(keep: Keep, a: Tensor, b: Tensor, h: Tensor, c: Tensor) -> States:
    """Compute h_t = z h_{t-1} + (1 - z) n, with n = tanh(a_n + r b_n); the gates r, z are sigmoids."""
    a_r, a_z, a_n = a.chunk(3, -1)
    b_r, b_z, b_n = b.chunk(3, -1)
    r = keep("reset_gate", (a_r + b_r).sigmoid())
    z = keep("update_gate", (a_z + b_z).sigmoid())
    n = keep("candidate", (a_n + r * b_n).tanh())
    return keep("hidden", keep("kept", z * h) + keep("added", (1 - z) * n)), c


def _rotate(x: Tensor, theta: float, scaling: RotaryScaling | None) -> Tensor:
    """Rotate each pair (a_i, b_i) of a head by its position times its frequency (RoPE)."""
    _, length, d = x.shape
    frequencies = theta ** -(np.arange(0, d, 2) / d)
    if scaling is not None:
        frequencies = scaling(frequencies)
    angle = np.arange(length)[:, None] * frequencies
    cos = mg.tensor(np.cos(angle).astype(np.float32))
    sin = mg.tensor(np.sin(angle).astype(np.float32))
    a, b = x.chunk(2, -1)
    return cat([a * cos - b * sin, b * cos + a * sin], -1)
