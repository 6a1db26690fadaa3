"""Defines the settings of the admin listeners: where metrics and health are served, to which clients, and the prices
for the estimated cost of requests. Frozen values; their defaults and reasons are in ``model.serving_limits``.
"""

import msgspec

from siltstone.costing.estimate import CostPrices
from siltstone.model import serving_limits
from siltstone.model.errors import InvalidRequest
from siltstone.model.serving_limits import Price

OFF = serving_limits.ADMIN_LISTENERS


class AdminPrices(msgspec.Struct, frozen=True):
    """``writes_per_million`` is the price of a million requests that put, copy or list; ``reads_per_million`` the price
    of a million GET and HEAD requests; ``read_per_gib`` the price of the bytes that leave the bucket. Deletions cost
    nothing. ``storage_per_gib``, of a month, and ``core_per_hour`` are for ``siltstone cost``."""

    writes_per_million: Price = serving_limits.PRICE_OF_WRITES
    reads_per_million: Price = serving_limits.PRICE_OF_READS
    read_per_gib: Price = serving_limits.PRICE_OF_GIB
    storage_per_gib: Price = serving_limits.PRICE_OF_STORAGE
    core_per_hour: Price = serving_limits.PRICE_OF_CORE

    @property
    def of_costs(self) -> CostPrices:
        """Returns the prices as an estimate of costs takes them."""
        return CostPrices(
            self.writes_per_million, self.reads_per_million, self.storage_per_gib, self.core_per_hour
        )


class AdminSettings(msgspec.Struct, frozen=True):
    """``listeners``: HOST:PORT, several with commas, or "off". ``maintenance_listeners``: the listeners of the process
    that ``serve --with-maintenance`` starts. ``allowed_hosts``: the host names, besides IP addresses and localhost, by
    which clients may call a listener. ``console``: whether a broker's listeners have the console, too.
    ``metrics_token_file``: a file whose first line lets a scrape in at a listener
    with a login; "" means none. ``otlp_endpoint``: the collector to which metrics are pushed each
    ``otlp_interval_ms``; "" means none."""

    listeners: str = serving_limits.ADMIN_LISTENERS
    maintenance_listeners: str = serving_limits.ADMIN_MAINTENANCE_LISTENERS
    open_to_network_without_login: bool = serving_limits.ADMIN_OPEN_TO_NETWORK
    allowed_hosts: str = serving_limits.ADMIN_ALLOWED_HOSTS
    console: bool = serving_limits.ADMIN_CONSOLE
    metrics_token_file: str = serving_limits.ADMIN_METRICS_TOKEN_FILE
    otlp_endpoint: str = serving_limits.ADMIN_OTLP_ENDPOINT
    otlp_interval_ms: int = serving_limits.ADMIN_OTLP_INTERVAL_MS
    prices: AdminPrices = AdminPrices()

    @property
    def is_on(self) -> bool:
        return self.listeners != OFF

    @property
    def is_observed(self) -> bool:
        """Returns whether anybody gets the metrics: by a listener, or by an export."""
        return self.is_on or bool(self.otlp_endpoint)

    def __post_init__(self) -> None:
        for name in ("listeners", "maintenance_listeners"):
            parts = [part.strip() for part in getattr(self, name).split(",")]
            if OFF in parts and len(parts) > 1:
                raise InvalidRequest(f'admin.{name} is "off" or a list of HOST:PORT, not both')
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise InvalidRequest(
                "admin.otlp_endpoint is a whole URL, such as http://127.0.0.1:4318/v1/metrics"
            )
        if self.otlp_interval_ms <= 0:
            raise InvalidRequest("admin.otlp_interval_ms has to be positive")

    @property
    def of_maintenance(self) -> "AdminSettings":
        """Returns the settings of the process that ``serve --with-maintenance`` starts."""
        return msgspec.structs.replace(self, listeners=self.maintenance_listeners)
