"""What a cluster does when partitions move, a broker dies, or a machine has more cores than one broker uses: three
brokers of ours beside three of Apache Kafka (KRaft, each broker and controller), with the same client.

``contenders`` starts them behind one port, ``pacing`` is the client and knows how long each partition had no answer.
"""
