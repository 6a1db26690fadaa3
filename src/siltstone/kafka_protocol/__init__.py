"""Floor 2: Kafka's wire protocol: bytes become values and values become bytes, without I/O.

*message*
    The body of a request or response. ``notation`` describes a message once for all its versions, ``messages`` has one
    module per API in that notation, ``compiling`` makes a decoder and an encoder of each version, ``codec`` calls them.
*header*
    What precedes a message in a frame: API key, version and correlation id (``headers``). ``announced`` is the table of
    the versions that the broker offers; ``api_key`` and ``error_code`` are Kafka's own lists of numbers.
*record batch*
    What Produce and Fetch carry: a header of 61 bytes (``batch_header``), then records, possibly compressed
    (``records``). ``batch_checks`` decides whether a producer's batch may be appended.

A request is read by ``headers.decode_request_header`` and ``codec.decode``; its response is written by ``codec.encode``
and ``headers.response_prefix``. Read next: ``notation``, then ``batch_header``.
"""
