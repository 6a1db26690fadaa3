"""Encoders turn columns of rows into values: ``avro``, ``json``."""
