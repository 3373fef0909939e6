"""Our solutions, with marked blanks. `minitransformer learn` writes them without the lines in the blanks."""
