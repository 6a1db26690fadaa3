"""The client matrix: what ordinary Kafka clients do with a broker, from what really happened.

``features`` says what is tried, ``clients`` who tries it, ``drivers`` how each client does it, in a process of its
own; ``driving`` speaks with those processes, ``stage`` does for them what a client cannot (restart the broker, look at
stored bytes), ``report`` writes ``docs/conformance.md``. Run by ``make conformance``; a short form by ``make test``
(``tests/integration/test_clients.py``).
"""
