"""Looking inside a model: attention, activations, logit lens, scores of heads, probes, words."""
