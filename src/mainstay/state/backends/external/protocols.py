"""The protocols by which changes come into an external database, by the names that jobs use."""

from __future__ import annotations

from mainstay.state.backends.external.logged import Logged
from mainstay.state.backends.external.prepared import Prepared
from mainstay.state.backends.external.versioned import Versioned

PROTOCOLS: dict[str, type[Logged]] = {
    "logged": Logged,
    "prepared": Prepared,
    "versioned": Versioned,
}
