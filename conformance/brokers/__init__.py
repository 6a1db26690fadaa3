"""The brokers that can be tested."""
