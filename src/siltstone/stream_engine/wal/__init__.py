"""The write-ahead log: a port, and local segment files with group commit."""
