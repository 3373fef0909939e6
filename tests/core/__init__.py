"""minigrad.core: tensors, ops, backward, dtypes, errors, randomness."""
