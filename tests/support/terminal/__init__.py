"""Runs every command in every state, at a terminal and in a pipe: the table of them, and the code that runs them."""
