"""Principal components: the directions along which vectors vary most."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def principal_components(
    vectors: Float[np.ndarray, "N D"], dims: int
) -> tuple[Float[np.ndarray, "N dims"], Float[np.ndarray, " dims"]]:
    """Project vectors onto their first `dims` principal components (Pearson 1901).

    Returns the coordinates, and the share of the variance that each component explains. The point that is
    furthest along a component has a positive coordinate.
    """
    u, s, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    points = np.zeros((len(vectors), dims))
    points[:, : len(s)] = (u * s)[:, :dims]
    furthest = points[np.abs(points).argmax(0), np.arange(dims)]
    points *= np.where(furthest < 0, -1, 1)  # makes the sign independent of the linear algebra library
    shares = np.zeros(dims)
    shares[: len(s)] = (s**2 / max((s**2).sum(), np.finfo(float).tiny))[:dims]
    return points, shares
