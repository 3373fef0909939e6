"""minitransformer.tasks."""
