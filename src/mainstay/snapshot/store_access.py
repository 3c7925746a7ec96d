"""What the environment says of how a store is reached, in the words of who has to change it.

The library says of an endpoint without TLS ``builder error``, and breaks off at one that is no URL.
Without credentials it asks the machine of the cloud that it takes this one for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from mainstay.errors import SnapshotStorageError
from mainstay.masking import masked

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_PLAIN = "AWS_ALLOW_HTTP"
_YES = ("1", "true", "on", "yes", "y")
"""What the library takes for yes, in any case."""

_REMEDIES = {
    "//169.254.169.254": "There are no credentials in the environment of this process: set "
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION.",
    "Account must be specified": "Set AZURE_STORAGE_ACCOUNT_NAME: the URL is "
    "az://container/folder, and does not name the account.",
}
"""What to do, by words that the library says where something is missing."""


def refuse_endpoint(url: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse an endpoint of S3 with which the library could only break off."""
    if not url.startswith("s3://"):
        return
    for variable in _ENDPOINTS:
        if endpoint := environment.get(variable):
            wrong = _wrong(endpoint, environment)
            if wrong:
                said = f"{variable}={masked(endpoint)!r}"
                raise SnapshotStorageError(f"cannot open the storage {url!r}: {said} {wrong}")


def _wrong(endpoint: str, environment: Mapping[str, str]) -> str | None:
    """What is wrong with an endpoint, and what to do; None if it can be tried."""
    scheme, _, rest = endpoint.partition("://")
    if scheme.lower() not in ("http", "https") or not urlsplit(f"//{rest}").netloc:
        return "is no URL of a server. Write it as in https://minio.example:9000."
    if scheme.lower() == "http" and environment.get(_PLAIN, "").lower() not in _YES:
        return f"has no TLS. Write https://, or allow it with {_PLAIN}=true."
    return None


def remedy(reason: str) -> str:
    """What to do about a failure, for the end of its message; empty where that says enough."""
    return next((f". {what}" for words, what in _REMEDIES.items() if words in reason), "")
