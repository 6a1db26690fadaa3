"""kcat of Debian, with librdkafka 2.0.2: an old version that is widely used."""
