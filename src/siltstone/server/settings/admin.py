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
    with a login; "" means none."""

    listeners: str = serving_limits.ADMIN_LISTENERS
    maintenance_listeners: str = serving_limits.ADMIN_MAINTENANCE_LISTENERS
    open_to_network_without_login: bool = serving_limits.ADMIN_OPEN_TO_NETWORK
    allowed_hosts: str = serving_limits.ADMIN_ALLOWED_HOSTS
    console: bool = serving_limits.ADMIN_CONSOLE
    metrics_token_file: str = serving_limits.ADMIN_METRICS_TOKEN_FILE
    prices: AdminPrices = AdminPrices()

    @property
    def is_on(self) -> bool:
        return self.listeners != OFF

    def __post_init__(self) -> None:
        for name in ("listeners", "maintenance_listeners"):
            parts = [part.strip() for part in getattr(self, name).split(",")]
            if OFF in parts and len(parts) > 1:
                raise InvalidRequest(f'admin.{name} is "off" or a list of HOST:PORT, not both')

    @property
    def of_maintenance(self) -> "AdminSettings":
        """Returns the settings of the process that ``serve --with-maintenance`` starts."""
        return msgspec.structs.replace(self, listeners=self.maintenance_listeners)
