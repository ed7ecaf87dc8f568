"""How kernels are compiled, kept and given a CRC, and the machine operations that they are written with."""
