"""What the command line says comes before what a program gives."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import mainstay as ms
from mainstay.api.overrides import Overrides, current, overriding, restore_of
from mainstay.errors import GraphError


class Session:
    """As much of a Spark session as is looked at."""

    createDataFrame = None  # noqa: N815

    class sparkContext:  # noqa: N801
        master = "local[2]"


class ConnectSession:
    """As much of a session of Spark Connect as is looked at: no context, but a server."""

    createDataFrame = None  # noqa: N815

    class client:  # noqa: N801
        host = "server"


def test_a_session_of_connect_is_compared_by_its_server() -> None:
    session = ConnectSession()
    with overriding(Overrides(master="sc://server:15002/;use_ssl=true")):
        assert ms.Environment(spark=session).spark is session
    with (
        overriding(Overrides(master="sc://other:15002")),
        pytest.raises(GraphError, match="a session of its own, at sc://server"),
    ):
        ms.Environment(spark=session)


def test_the_address_of_a_connect_server_is_taken_for_a_session() -> None:
    assert ms.Environment(spark="sc://server:15002").spark == "sc://server:15002"
    with overriding(Overrides(master="sc://other:15002")):
        assert ms.Environment(spark="sc://server:15002").spark is None


def test_without_any_a_program_gets_what_it_gives() -> None:
    env = ms.Environment(spark="embedded", parallelism=3)
    assert (env.spark, env.parallelism, env.ui) == ("embedded", 3, None)
    assert current().shown() == ""


def test_what_is_set_is_taken_and_the_rest_is_left() -> None:
    given = ms.Snapshots("./a", every="7s", retain=9)
    set_ = Overrides(master="embedded", parallelism=5, snapshots="./b", restore="latest", port=0)
    with overriding(set_):
        env = ms.Environment(parallelism=2, mode="at_least_once", snapshots=given)
    assert (env.spark, env.parallelism, env.mode) == ("embedded", 5, "at_least_once")
    assert env.snapshots is not None
    assert str(env.snapshots.dir).endswith("/b")
    assert (env.snapshots.every, env.snapshots.retain) == ("7s", 9)
    assert env.restore.start == "latest"
    assert env.ui is None
    assert "master='embedded', parallelism=5" in set_.shown()
    assert ms.Environment().parallelism == 2


def test_a_page_is_added_or_left_out_and_its_port_is_set() -> None:
    own = ms.Ui(port=8080, token="x" * 16)
    for ui, given, expected in [
        (True, None, ms.Ui(port=9)),
        (True, own, ms.Ui(port=9, token="x" * 16)),
        (False, own, None),
        (None, own, ms.Ui(port=9, token="x" * 16)),
        (None, None, None),
    ]:
        with overriding(Overrides(ui=ui, port=9)):
            assert ms.Environment(ui=given).ui == expected


def test_they_hold_in_every_thread_of_the_program() -> None:
    found: list[Any] = []
    with overriding(Overrides(parallelism=7)):
        thread = threading.Thread(target=lambda: found.append(ms.Environment().parallelism))
        thread.start()
        thread.join()
    assert found == [7]


def test_a_session_of_the_program_must_be_at_the_master_that_is_named() -> None:
    session = Session()
    with overriding(Overrides(master="local[2]")):
        assert ms.Environment(spark=session).spark is session
    with overriding(Overrides(master="local[4]")):
        assert ms.Environment(spark="embedded").spark is None
        with pytest.raises(GraphError, match=r"session of its own, at local\[2\]"):
            ms.Environment(spark=session)


def test_processes_are_for_the_command_line_and_know_no_dataframes() -> None:
    with pytest.raises(GraphError, match="must be 'embedded'"):
        ms.Environment(spark="processes")
    with overriding(Overrides(master="processes")):
        env = ms.Environment()
    with pytest.raises(GraphError, match="needs Spark"):
        env.from_dataframe(None, uid="rows")


def test_what_a_restore_says_is_a_number_a_word_or_a_folder(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").mkdir()
    assert restore_of("17") == 17
    assert restore_of("latest") == "latest"
    assert restore_of("saved") == "./saved"
    assert restore_of("s3://bucket/saved") == "s3://bucket/saved"
