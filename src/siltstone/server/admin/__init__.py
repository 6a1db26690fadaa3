"""Metrics and health over HTTP, off until the setting ``admin.listeners`` is set.

``http_request`` reads the head of a request, ``http_connection`` is a connection, ``listening`` opens the listeners,
``addresses`` says where they may be; ``endpoints`` has ``/metrics``, ``/livez`` and ``/readyz``. ``families`` is the
table of all metrics, ``exposition`` the two text formats, ``scrape`` collects and renders in short turns. The sources:
``process_source``, ``broker_source`` (with ``largest_topics`` and ``group_lags``), ``store_source``,
``maintenance_source``. docs/decisions/0017-metrics.md says why there is no library.
"""
