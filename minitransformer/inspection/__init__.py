"""Looking inside a model: attention maps, activations, ablated heads, logit lens, word vectors."""

from ..old_paths import add_old_paths

add_old_paths(__name__)
