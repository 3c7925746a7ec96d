"""Sessions of Spark Connect, by the address of their server."""

from __future__ import annotations

import os
import socket
from typing import Any, cast
from urllib.parse import urlsplit

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mainstay.drive.notices import say_at_once
from mainstay.errors import SparkSetupError
from mainstay.masking import masked
from mainstay.spark.launch.spark_errors import summary
from mainstay.spelling import unended

_MODE = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
"""PySpark sets the first with the first session of Connect, and heeds the second."""
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
REACH_S = 10.0


def connect_session(address: str) -> SparkSession:
    """A session of the Spark Connect server at ``sc://host:port``, and of no other."""
    say_at_once(f"connecting to Spark at {masked(address)}")
    try:
        return _session_at(address)
    except ImportError as error:
        raise SparkSetupError(
            f"a session of Spark Connect needs what is not installed: {error}. Install it with "
            "pip install 'mainstay[connect]'."
        ) from error
    except (PySparkException, ValueError) as error:
        raise SparkSetupError(_refusal(address, str(error))) from error


def _session_at(address: str) -> SparkSession:
    """PySpark's own ``getOrCreate`` gives the session that there is, whatever its server."""
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    wanted = DefaultChannelBuilder(address)
    present = ConnectSession.getActiveSession() or ConnectSession._get_default_session()
    is_new = present is None or _way(present.client._builder) != _way(wanted)
    if is_new and not _has_classic():
        _check_listens(wanted.endpoint)
    found: Any = present or SparkSession.builder.remote(address).getOrCreate()
    if _way(found.client._builder) == _way(wanted):
        return cast(SparkSession, found)
    # Not by the builder: the session that the program works with stays the active one.
    return ConnectSession(connection=address)  # type: ignore[return-value]


def _has_classic() -> bool:
    """Whether there is a classic session, beside which PySpark makes none of Connect."""
    context = getattr(pyspark, "SparkContext", None)
    return context is not None and context._active_spark_context is not None


def _check_listens(endpoint: str) -> None:
    """Ask once whether somebody is there: PySpark would ask again for many minutes, and say
    nothing. Behind a proxy there is no other way than its own."""
    if any(os.environ.get(name) for name in _PROXIES):
        return
    place = urlsplit(f"//{endpoint}")
    try:
        socket.create_connection((place.hostname or "", place.port or 0), REACH_S).close()
    except OSError as error:
        raise ValueError(f"nobody answers there ({error})") from error


def _way(channel: Any) -> list[Any]:
    """What tells the server and the user of a session from others. A channel of the program's own
    kind need not have all of it."""
    names = ("endpoint", "secure", "token", "userId", "session_id")
    return [*(getattr(channel, name, None) for name in names), sorted(channel.metadata())]


def _refusal(address: str, said: str) -> str:
    if "SESSION_ALREADY_EXIST" in said:
        return (
            f"{masked(address)} gives no session beside the classic Spark session of this process. "
            "Stop that one first, with session.stop(); or have the job run on it: "
            "Environment(spark=session)."
        )
    return (
        f"{masked(address)} gives no session: {unended(masked(summary(said)))}. An address is "
        "written as sc://host:15002, and a Spark Connect server must listen there."
    )


def refuse_beside_connect() -> None:
    """Refuse a classic session where PySpark starts none."""
    is_client = getattr(pyspark, "SparkContext", None) is None
    if is_client or any(name in os.environ for name in _MODE):
        raise SparkSetupError(
            "a job without spark= runs on a classic session of its own, and this process works "
            "with Spark Connect, beside which PySpark starts none. Name the session that the job "
            'runs on: Environment(spark=session) or spark="sc://host:15002"; or run without '
            'Spark: spark="embedded".'
        )
