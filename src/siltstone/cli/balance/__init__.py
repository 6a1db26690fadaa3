"""``siltstone balance``: what each broker carries, which moves would even that out, and the switch for doing so."""
