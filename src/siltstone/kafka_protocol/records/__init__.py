"""The records inside a batch: read, checked, built, compressed. Off the hot path, which patches headers only."""
