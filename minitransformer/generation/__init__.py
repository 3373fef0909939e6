"""Text generation: greedy search, sampling and beam search, with any model that meets models/protocol.py."""

# ruff: noqa: I001 (a part that is taken away takes its paragraph along)

from .generate import generate, stream
from .request import GenerationConfig
from .result import GenerationResult
from .streaming import TextStreamer

# inspection: what the model attends to in each text, for output_attentions
from . import attentions

# the names of this package
__all__ = ["GenerationConfig", "GenerationResult", "TextStreamer", "generate", "stream"]
