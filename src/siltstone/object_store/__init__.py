"""Floor 4: buckets. ``port`` says what a store does and how it fails; the adapters are memory, folder and S3."""
