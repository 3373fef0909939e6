"""minigrad's public modules."""
