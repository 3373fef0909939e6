"""Looking inside a model: attention maps, activations, ablated heads, logit lens."""

from ..old_paths import keep

keep(__name__)
