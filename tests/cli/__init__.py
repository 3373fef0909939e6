"""minitransformer.cli: commands, streams, mistakes."""
