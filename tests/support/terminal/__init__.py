"""Every command in every state, at a terminal and in a pipe: the table of them, and what runs them."""
