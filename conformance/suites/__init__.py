"""The tests of transactions and groups of other people's clients, run against a broker: ``known`` has the suites,
``preparing`` what is changed in a copy of their sources so that they find the broker, ``running`` runs them, ``page``
writes the table."""
