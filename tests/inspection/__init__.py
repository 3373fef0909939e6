"""minitransformer.inspection."""
