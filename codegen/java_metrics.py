"""Java's metrics that kproducer lacks, for the page of metrics. A test compares them with Java's producer."""

from __future__ import annotations

from typing import Final

#: Name to the reason.
NOT_FROM_JAVA: Final[dict[str, str]] = {
    "commit-id": "a release is named by its version",
    "version": "a text: `kproducer.__version__`; `metrics()` has it in the group app-info",
    "failed-reauthentication-rate": "counted as failed-authentication: the connection ends in both cases",
    "failed-reauthentication-total": "as failed-reauthentication-rate",
    "io-ratio": "one native step writes, waits and reads, so work and waiting cannot be told apart",
    "io-time-ns-avg": "as io-ratio",
    "io-time-ns-total": "as io-ratio",
    "io-wait-ratio": "as io-ratio",
    "io-wait-time-ns-avg": "as io-ratio",
    "io-wait-time-ns-total": "as io-ratio",
    "reauthentication-latency-avg": "the time of a new login is not measured; request-latency has its effect",
    "reauthentication-latency-max": "as reauthentication-latency-avg",
    "record-size-max": "would take work per record",
    "successful-authentication-no-reauth-total": "counts brokers older than 2.2, which are not supported",
}
