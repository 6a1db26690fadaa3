"""One module for each kind of value: ``json`` (text, too), ``avro``, ``protobuf``.

Each has the decoder, and the function that gives the Arrow type of a schema of its kind. ``writers`` finds the schemas
that values of Avro and Protobuf were written with.
"""
