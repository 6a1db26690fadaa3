"""The requests of transactional producers and of tools about transactions: each message becomes a request of
``rules.requests``, and the answer becomes a message again.
"""
