"""ViT: an image as a sequence of patches, read by the Transformer's encoder (Dosovitskiy et al. 2021,
"An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn
from minigrad.core.tensor import as_tensor_like
from minigrad.ops.shaping import cat

from ..base_config import Config, check_config
from ..errors import UserError, check_integer, check_range
from ..layers.config import MAX_LAYERS, LayerConfig
from ..layers.encoder_decoder import Encoder
from ..layers.head_sizes import check_heads
from ..layers.positions import absolute_positions


@dataclass(frozen=True)
class ViTConfig(Config):
    """The settings of ViT. The defaults are ViT-B/16 (table 1), the names Hugging Face's."""

    hidden_size: int = 768  # size of each patch's vector
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  # inner width of the feed-forward networks
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0  # of embeddings and of sub-layer outputs
    attention_probs_dropout_prob: float = 0.0  # of attention weights
    initializer_range: float = 0.02  # standard deviation of the initial weights
    layer_norm_eps: float = 1e-12
    image_size: int = 224  # height and width of an image, in pixels
    patch_size: int = 16  # height and width of a patch, in pixels
    num_channels: int = 3
    qkv_bias: bool = True  # whether the projections to queries, keys and values have biases
    positions: str = "learned"  # "none", "learned", "rotary", ...; patches are in row-major order
    num_labels: int = 1000  # number of labels; in a recipe, 0 means all in the training data

    def __post_init__(self) -> None:
        check_range(self, "layer_norm_eps initializer_range num_labels", 0)
        check_range(self, "hidden_size num_attention_heads intermediate_size", 1)
        check_range(self, "image_size patch_size num_channels", 1, 2**15)
        check_range(self, "num_hidden_layers", 1, MAX_LAYERS + 1)
        check_range(self, "hidden_dropout_prob attention_probs_dropout_prob", 0, 1)
        check_heads(self, "hidden_size", "num_attention_heads")
        if self.image_size % self.patch_size:
            raise UserError(
                f"image_size={self.image_size} is not divisible by patch_size={self.patch_size}.\n"
                f"Choose a patch size that divides it: {', '.join(map(str, _divisors(self.image_size)))}."
            )

        self.layer()

    def layer(self) -> LayerConfig:
        return LayerConfig(
            self.hidden_size, self.num_attention_heads, self.intermediate_size,
            self.hidden_dropout_prob, self.attention_probs_dropout_prob, activation=self.hidden_act,
            positions=self.positions, qkv_bias=self.qkv_bias, norm_first=True,
            layer_norm_eps=self.layer_norm_eps,
        )  # fmt: skip

    @property
    def num_patches(self) -> int:
        """The number of patches in an image: N = (H / P) (W / P)."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_positions(self) -> int:
        """The number of positions: one for each patch, and one for the class token."""
        return 1 + self.num_patches


class Patches(nn.Module):
    """Cuts images (B, C, H, W) into N = (H / P) (W / P) patches of P × P pixels, and projects each.

    This equals a convolution with kernel and stride P, whose weight is the projection's as (D, C, P, P).
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.projection = nn.Linear(config.num_channels * config.patch_size**2, config.hidden_size)

    def forward(self, images: Any) -> Float[Tensor, "B N D"]:
        c, p = self.config.num_channels, self.config.patch_size
        x = as_tensor_like(images, self.projection.weight)
        expected = (c, self.config.image_size, self.config.image_size)
        if tuple(x.shape[1:]) != expected:
            raise UserError(
                f"images of shape {tuple(x.shape)}, expected (batch, {', '.join(map(str, expected))}).\n"
                f"Resize or reshape them, or build the model with their num_channels and image_size."
            )
        n = self.config.image_size // p
        assert self.projection.bias is not None  # the bias has the dtype, as the weight may be quantized
        x = x.to(self.projection.bias.dtype).reshape(-1, c, n, p, n, p)
        return self.projection(x.permute(0, 2, 4, 1, 3, 5).reshape(-1, n * n, c * p * p))  # (B, N, C P P)


class ViT(nn.Module):
    """A classifier of images: a class token, patches, pre-norm layers and a linear head (equations 1 to 4).

    model(images) maps images (B, C, H, W) to logits (B, num_labels), computed from the class token's state.

    >>> from minitransformer import ViT, ViTConfig
    >>> sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = ViT(ViTConfig(image_size=8, patch_size=4, num_channels=1, **sizes))
    >>> model(mg.randn(2, 1, 8, 8)).shape
    (2, 1000)
    """

    is_encoder_decoder: ClassVar[bool] = False
    model_type: ClassVar[str] = "vit"
    config_class: ClassVar[type] = ViTConfig

    def __init__(self, config: ViTConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        self.patches = Patches(c)
        self.class_token = nn.Parameter(np.empty((1, 1, c.hidden_size), np.float32))
        self.positions = absolute_positions(c.positions, c.hidden_size, c.num_positions)
        self.dropout = nn.Dropout(c.hidden_dropout_prob)
        self.encoder = Encoder(c.num_hidden_layers, replace(c.layer(), **parts))
        check_integer("num_labels", c.num_labels, 1)
        self.head = nn.Linear(c.hidden_size, c.num_labels)
        self._initialize()

    def _initialize(self) -> None:
        """Draw matrices and the class token from a normal distribution, and set biases to zero."""
        for name, p in self.named_parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=self.config.initializer_range)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def states(self, images: Any) -> Float[Tensor, "B N D"]:
        """The hidden states of the class token and of each patch: (B, 1 + num_patches, D)."""
        x = self.patches(images)
        x = cat([self.class_token.expand(x.shape[0], -1, -1).to(x.dtype), x], 1)
        return self.encoder(self.dropout(self.positions(x)))

    def forward(self, images: Any) -> Float[Tensor, "B L"]:
        return self.head(self.states(images)[:, 0])


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
