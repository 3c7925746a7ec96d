"""How long a client of an object store waits, and how often it asks again.

A store that is away is reported soon: who called knows how to wait for it, and has other things to
do. A request that got no answer is given up after ``REQUEST``, a connection after ``CONNECT``; no
request is begun again later than ``RETRIES`` says. So a thread waits for a minute at the most.

Options of the client that are given to obstore replace those of the environment, so these are read
here: ``AWS_TIMEOUT``, ``AWS_CONNECT_TIMEOUT``, ``AWS_PROXY_URL`` and so on, as object_store names
them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

CONNECT = "5s"
REQUEST = "30s"
"""For a whole request. A large file on a slow line may need longer: ``AWS_TIMEOUT=2min``."""

RETRIES: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=30)}

_PREFIXES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_max_frame_size",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "randomize_addresses",
    "read_timeout",
    "timeout",
    "user_agent",
)


def client_options(scheme: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The options of a client for the stores of a scheme: what the environment says, and ours."""
    prefix = _PREFIXES.get(scheme, f"{scheme.upper()}_")
    found = {
        name: environment[variable]
        for name in _OPTIONS
        if (variable := f"{prefix}{name.upper()}") in environment
    }
    return {"connect_timeout": CONNECT, "timeout": REQUEST, **found}
