"""Floor 4: the values of records as columns with types. JSON, Avro and Protobuf → Arrow, on request.

The store does not interpret values. A caller that wants them as columns names a *value format*: the kind of encoding,
and the *reader schema* that decides which columns there are. A *decoder* turns a column of bytes into a column of that
type, one output row for each input row, always; a value that it cannot decode becomes null, and the decoder reports the
row with the reason.

A value in Confluent's *wire format* begins with the byte 0 and the id of the schema with which it was written (4 bytes,
big endian); newer serializers write a GUID, and may write either into a header of the record. A *schema registry* gives
the schema: a folder, a registry over HTTP, or schemas that a driver has fetched for its tasks.

::

    registry = open_registry("http://127.0.0.1:8081")
    fmt = settle_format(FormatKind.AVRO, "flights-value", registry=registry)   # once, where a plan is made
    decoded = open_decoder(fmt).decode(column)                                  # in each task
    decoded.column, decoded.bad

Reading order: ``value_format`` (what is settled), ``schemas`` (where schemas come from), ``wire`` (the prefix),
``headers`` (the prefix in a header), ``decoding`` (the port), ``decoders`` (one module for each kind), ``columns``
(rows → Arrow), ``opening`` (the decoder of a format), ``settling`` (a user's words → a value format).
"""
