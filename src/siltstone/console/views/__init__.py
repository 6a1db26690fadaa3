"""What pages show, as values: pure functions of an image. ``topics`` counts, ``stream_map`` and ``objects`` show where
bytes are, ``cluster`` and ``problems`` say how the store is."""
