"""Decoders turn the values of many records into columns. ``port`` is what an export needs of a decoder; ``json``
decodes JSON, ``schemas`` Avro and Protobuf; ``choosing`` holds bytes and text, and the table of all encodings.
"""
