"""The requests of transactional producers and of tools about transactions: each message becomes a request of
``rules.requests``, and the answer becomes a message again.

None of them is in the table of the broker's APIs yet: they are announced when groups, scans and tables know
transactions.
"""
