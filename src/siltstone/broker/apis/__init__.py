"""One file per Kafka API: request message in, response message out."""
