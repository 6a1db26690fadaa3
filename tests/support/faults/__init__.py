"""A broker of its own process under one fault: disks, S3, metadata, clocks, and what must hold."""
