"""Which server a session of Spark Connect is of. A session asks no server until it has work."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="mainstay[connect] is not installed")

BEGIN = """
import os, sys, traceback
from pyspark.sql import SparkSession
from mainstay.errors import SparkSetupError
from mainstay.spark.launch.session import own_session

def refusal(master):
    try:
        own_session(2, master)
    except SparkSetupError as error:
        return str(error)
"""
RUN = """
code = 0
try:
    exec({program!r})
except Exception:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # at the ordinary end sessions would look for their servers
"""


def output_of(program: str) -> list[str]:
    """In a process of its own: one that has had a session of Connect has no others."""
    answer = subprocess.run(
        [sys.executable, "-c", BEGIN + RUN.format(program=program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def test_a_job_runs_on_the_server_that_it_names_and_not_on_that_of_the_program() -> None:
    program = """
import socket
listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
one, two = (f"127.0.0.1:{each.getsockname()[1]}" for each in listening)
active = SparkSession.builder.remote(f"sc://{one}/;token=first").getOrCreate()
other = own_session(2, f"sc://{two}")
print([active.client._builder.endpoint, other.client._builder.endpoint] == [one, two])
print(own_session(2, f"sc://{one}/;token=second").client.token)
print(own_session(2, f"sc://{one}/;token=first") is active)
print(type(active).getActiveSession() is active)
"""
    assert output_of(program) == [
        "True",
        "second",
        "True",
        "True",
    ]


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    (refusal,) = output_of('print(refusal("sc://127.0.0.1:1"))')
    assert refusal.startswith("sc://127.0.0.1:1 gives no session: nobody answers there (")
    assert refusal.endswith("and a Spark Connect server must listen there.")


def test_a_job_without_a_session_is_refused_beside_one_of_connect_with_what_to_name() -> None:
    program = """
SparkSession.builder.remote("sc://127.0.0.1:1").getOrCreate()
for master in (None, "local[2]", "spark://master:7077"):
    print(refusal(master))
"""
    refusals = output_of(program)
    assert len(refusals) == 3
    for refusal in refusals:
        assert "Environment(spark=session)" in refusal
        assert "CONNECT_URL_NOT_SET" not in refusal


def test_an_address_that_is_none_is_refused_with_how_one_is_written() -> None:
    program = """
for address in ("sc://h:x", "sc://h:99999", "sc://", "sc://h/;token"):
    print(refusal(address))
"""
    refusals = output_of(program)
    assert [refusal.partition(": ")[0] for refusal in refusals] == [
        "sc://h:x gives no session",
        "sc://h:99999 gives no session",
        "sc:// gives no session",
        "sc://h/;token gives no session",
    ]
    assert "Port could not be cast to integer" in refusals[0]
    for refusal in refusals:
        assert "An address is written as sc://host:15002" in refusal
        assert ".." not in refusal
