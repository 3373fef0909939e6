"""minitransformer.training: the trainer, run folders, evaluation."""
