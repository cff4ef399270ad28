"""Which case runs next, on which slot: queue, engine, and the loops that drive them."""
