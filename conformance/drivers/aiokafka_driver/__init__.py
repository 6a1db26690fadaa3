"""aiokafka: kafka-python's older codecs on asyncio."""
