"""Floor 4: a small Kafka client that blocks: what the commands for people and ``siltstone.KeyedView`` speak to a broker
with, ours or another's.

``cluster`` is the way in: it knows the brokers and asks them. One file holds each thing that can be asked
(``topics``, ``offsets``, ``configs``, ``groups``); ``producing`` and ``consuming`` move records; ``keyed_view`` keeps
the newest of each key. It speaks to Apache Kafka 3.0 and later: ``negotiation`` says from which version of each request
on. No sockets elsewhere than in ``connection``, no click, no tables.
"""
