"""Commands for developers of minigrad: generate files, compare versions, remove parts."""
