"""Text generation: greedy search, sampling and beam search, with any model that meets models/protocol.py."""

from .generate import generate, stream
from .request import GenerationConfig
from .result import GenerationResult
from .streaming import TextStreamer

# the names of this package
__all__ = ["GenerationConfig", "GenerationResult", "TextStreamer", "generate", "stream"]
