"""Measures a cluster while partitions move, while a broker dies, and on a machine with more cores than one broker
uses: three brokers of ours beside three of Apache Kafka (KRaft, each a broker and a controller), with the same
client. ``contenders`` starts them behind one port, and ``pacing`` is the client, which knows how long each partition
had no answer."""
