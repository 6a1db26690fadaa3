"""Floor 3: the configurations of topics. Broker and maintenance use the same ones.

A client sends a configuration as a name and a text. Its *row* in the table gives type, default and rule; the texts of a
topic, completed by the broker's defaults and the table's, make a ``TopicConfig``.

===========  ======================================================================
``values``   types of values, rules for them, and the texts of refusals
``rows``     the table: one row for each configuration
``table``    makes a TopicConfig from texts
``rolling``  decides from a TopicConfig when a segment is closed
===========  ======================================================================
"""
