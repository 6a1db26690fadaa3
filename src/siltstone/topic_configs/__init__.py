"""Floor 3: the configurations that topics have: their table, their values, what broker and maintenance compute with.

``values`` (types and rules), ``rows`` (the table), ``table`` (texts → TopicConfig).
"""
