"""Text generation: greedy search, sampling and beam search, for models that implement models/protocol.py."""

from .generate import generate, stream
from .request import GenerationConfig
from .result import GenerationResult
from .streaming import TextStreamer

__all__ = ["GenerationConfig", "GenerationResult", "TextStreamer", "generate", "stream"]
