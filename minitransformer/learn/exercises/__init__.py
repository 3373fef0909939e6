"""Our solutions, with the blanks marked. `minitransformer learn` writes them without our lines."""
