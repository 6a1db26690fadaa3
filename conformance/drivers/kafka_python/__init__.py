"""kafka-python: pure Python, of version 3."""
