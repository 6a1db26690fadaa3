"""TCP for the broker: frames of bytes in, gather lists out, limits on everything. Knows nothing of Kafka but that a
request begins with its size in four bytes.

Read ``connection`` first: it is the one that the event loop calls. Then ``frame_reader`` (bytes become frames),
``request_pipeline`` (frames become answers, in order), ``connections`` (what all connections share, and who is
closed for being idle, slow or one too many) and ``listeners`` (where they come in).
"""
