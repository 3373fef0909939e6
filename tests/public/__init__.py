"""minigrad's other public modules (amp, func, io, utils), public names."""
