"""Floor 4: a small blocking Kafka client, for the commands and ``siltstone.KeyedView``, against Siltstone or Apache
Kafka.

Start with ``cluster``: a ``Cluster`` knows the brokers and sends each request to the right one. ``topics``,
``offsets``, ``configs`` and ``groups`` each have the administrative requests about one thing. ``producing`` sends
records; ``consuming`` fetches them, ``following`` adds reconnecting, and ``keyed_view`` keeps the newest value of
each key. ``patience`` retries what is not ready, ``failures`` has all errors. Only ``connection`` uses sockets, with
``tls`` as ``client_settings`` say; it also chooses the version of each request, such that Apache Kafka 3.0 and later
are supported.

Why not a client library: the commands would need one more package, and a call would wait for the library's threads
instead of blocking in the caller's, where Ctrl-C and time limits are.
"""
