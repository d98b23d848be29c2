"""From the arguments of ``send`` to the accumulator, on the caller's thread."""
