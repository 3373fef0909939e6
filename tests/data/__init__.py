"""minitransformer.data: sources, formats, batches."""
