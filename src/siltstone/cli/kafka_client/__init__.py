"""A small Kafka client that blocks: what the commands for people speak to a broker with, ours or another's.

``cluster`` is the way in: it knows the brokers and asks them. One file holds each thing that can be asked
(``topics``, ``offsets``, ``configs``, ``groups``); ``producing`` and ``consuming`` move records. It speaks to Apache
Kafka 3.0 and later: ``negotiation`` says from which version of each request on. No sockets elsewhere than in
``connection``, no click, no tables.
"""
