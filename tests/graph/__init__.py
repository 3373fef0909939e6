"""minigrad.graph: traces, pictures, pages."""
