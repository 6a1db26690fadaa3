"""A broker in a process of its own under one fault of disks, S3, metadata or clocks, and what must hold."""
