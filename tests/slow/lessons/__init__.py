"""minigrad.graph: what takes long."""
