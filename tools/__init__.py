"""Commands for whoever changes minigrad: they write files, compare versions, take parts away."""
