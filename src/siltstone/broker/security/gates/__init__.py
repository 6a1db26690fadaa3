"""What stands between a request and its handler while a store has authorization: a *gate* for each API.

A gate asks for the rights that the request needs, hands on what the client may do, and answers the rest as Kafka does:
``gate`` has what all gates share, ``cluster``, ``topics``, ``groups`` and ``transactions`` the gates by what they
guard, ``table`` which API has which. Handlers know nothing of it. Produce, Fetch, Metadata and
DescribeTopicPartitions ask by themselves, because they decide while they work.
"""
