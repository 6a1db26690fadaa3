"""The records of ``__transaction_state`` in Kafka's own formats, bytes ⇄ values: ``record`` holds the layouts.

Transactions are rebuilt from these records: the newest record of each transactional id counts.
"""
