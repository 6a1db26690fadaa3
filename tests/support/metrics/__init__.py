"""Scrapes as an oracle reads them, and an HTTP client of bytes."""
