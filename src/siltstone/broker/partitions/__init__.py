"""One partition: its two streams, and what the broker knows about its batches."""
