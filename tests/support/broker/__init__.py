"""Brokers for tests, in a process of their own or on a manual clock, and requests to them."""
