"""minigrad.breadth: ops beyond what a Transformer needs."""
