"""What the repository says of itself: documentation, imports, notebooks."""
