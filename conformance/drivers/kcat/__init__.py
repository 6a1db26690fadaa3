"""kcat as Debian has it: librdkafka 2.0.2, an old one that is widely in use."""
