"""Decoders of values: bytes of many records in, columns out. ``port`` is what an export needs of a decoder; ``json``
decodes JSON; ``choosing`` holds bytes and text, and the table of all encodings.
"""
