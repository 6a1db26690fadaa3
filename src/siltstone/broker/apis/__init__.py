"""One file per Kafka API: a handler gets a decoded request message and returns a response message. Begin with
``table``.

AlterConfigs and IncrementalAlterConfigs share ``altering_configs``. What several APIs report is beside them:
``broker_entries`` and ``config_entries`` (configurations), ``config_resources``, ``topic_description``.
"""
