"""The formats of tables: one port, one module for each format, and ``choosing`` between them."""
