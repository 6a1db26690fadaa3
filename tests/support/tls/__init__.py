"""Certificates for tests, and connections that use them."""
