"""The arithmetic of quotas, as in Kafka. Pure. ``precedence`` says which limit wins and who shares it, ``windows`` how long
a client waits that was above it. ``broker.security.throttling`` charges clients."""
