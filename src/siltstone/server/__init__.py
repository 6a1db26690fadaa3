"""Floor 7: one process: settings, the components they become, and later the sockets in front of them."""
