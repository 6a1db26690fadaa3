"""The tail cache: what was appended last, until it is committed and a while longer."""
