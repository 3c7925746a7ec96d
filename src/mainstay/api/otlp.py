"""Metrics and spans of a job by OTLP, as its author asks for them.

::

    env = Environment(snapshots=Snapshots("./snapshots"), otlp=Otlp("http://collector:4318"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mainstay.errors import GraphError
from mainstay.masking import refuse_login
from mainstay.own_frames import with_settings


@with_settings
@dataclass(frozen=True, slots=True)
class Otlp:
    """Where a job sends its metrics, and a span for each epoch, by OTLP over HTTP.

    Without an ``endpoint``, and for all else, the variables of OpenTelemetry hold
    (``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like). ``headers`` go with each request.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            self._check_endpoint()
        headers = self.headers
        is_texts = isinstance(headers, Mapping) and all(
            isinstance(part, str) for pair in headers.items() for part in pair
        )
        if headers is not None and not is_texts:
            raise GraphError(
                "Otlp(headers=...) must be a dictionary of texts, as in "
                'headers={"Authorization": "Bearer ..."}.'
            )

    def _check_endpoint(self) -> None:
        endpoint: Any = self.endpoint
        parts = None
        if isinstance(endpoint, str):
            refuse_login(endpoint, GraphError)
            parts = urlsplit(endpoint)
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
            raise GraphError(
                f"Otlp(endpoint={endpoint!r}) must be the address of a collector, as in "
                'endpoint="http://localhost:4318".'
            )


def otlp_of(given: Any) -> Otlp | None:
    """What ``Environment(otlp=...)`` was given."""
    if given is None or isinstance(given, Otlp):
        return given
    raise GraphError(
        f'otlp={given!r} must be an Otlp or None, as in otlp=Otlp("http://localhost:4318").'
    )


def exporter_of(otlp: Otlp) -> Any:
    """What sends, as soon as there is a job."""
    try:
        from mainstay.serve.otlp import OtlpExporter
    except ModuleNotFoundError as error:
        raise GraphError(
            f"otlp= needs {error.name}, which is not installed. Install it with: "
            "pip install 'mainstay[otlp]'"
        ) from error
    return OtlpExporter(otlp.endpoint, otlp.headers)
