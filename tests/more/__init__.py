"""minigrad.more: ops beyond what a Transformer needs."""
