"""Brokers for tests, in a process of their own or on a manual clock, and what is asked of them."""
