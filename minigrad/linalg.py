"""Linear algebra under the names of torch.linalg."""

from .ops.norms import vector_norm

__all__ = ["vector_norm"]
