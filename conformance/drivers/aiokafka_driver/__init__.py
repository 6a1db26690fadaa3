"""aiokafka: an asyncio client with the codecs of an older kafka-python."""
