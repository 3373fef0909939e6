"""Layers of minitransformer: attention, cache, recorded weights."""
