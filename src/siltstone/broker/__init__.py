"""Floor 10: Kafka's semantics on the stream engine. Async, without sockets.

A *partition* is a data stream with the record batches and a meta stream with snapshots of what the broker knows about
them (``partitions``). A *topic* is a name, a configuration and its partitions, as the metadata image has them
(``topics``). A consumer *group* has members and committed offsets, stored in ``__consumer_offsets`` (``groups``). A
*backlog* is what a group has not read yet of a topic that keeps its data for the group (``backlog``). A *quota* limits
what clients use (``quotas``).

The network passes a request to ``broker.KafkaBroker`` as a frame (``request``). The broker decodes it, finds the
handler of its API (``apis.table``; Produce and Fetch have paths of their own) and calls it with the parts of the
broker (``parts``). The handler's response leaves as a frame; errors become Kafka's codes in ``error_codes``.
``starting`` makes a broker from a running engine. Read next: ``broker``, then one handler in ``apis``.
"""
