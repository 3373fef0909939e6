"""Looking inside a model: attention, activations, logit lens, scores of heads, probes, words."""

from ..old_paths import add_old_paths

add_old_paths(__name__)
