"""kafka-python, version 3: a client in pure Python."""
