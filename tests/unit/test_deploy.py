"""The files of ``deploy``: what they name exists, and the job in them runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.pages import ROOT

DEPLOY = ROOT / "deploy"
TOKEN = "0123456789abcdef"


def composed() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def instructions() -> list[list[str]]:
    """The lines of the Dockerfile, with those that go on joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_files_that_compose_mounts_are_there() -> None:
    mounts = [
        mount.split(":")[0]
        for service in composed()["services"].values()
        for mount in service.get("volumes", [])
    ]
    files = [mount for mount in mounts if mount.startswith(".")]
    assert len(files) == 5
    assert [file for file in files if not (DEPLOY / file).is_file()] == []
    assert set(mounts) - set(files) == set(composed()["volumes"])


def test_what_the_image_copies_is_there_and_its_stages_exist() -> None:
    lines = instructions()
    stages = {line[3] for line in lines if line[0] == "FROM" and "AS" in line}
    assert composed()["services"]["job"]["build"]["target"] in stages
    copied = [line for line in lines if line[0] == "COPY" and not line[1].startswith("--from")]
    assert [name for line in copied for name in line[1:-1] if not (ROOT / name).exists()] == []
    assert {line[1].partition("=")[2] for line in lines if "--from" in line[1]} <= stages


def test_the_image_does_not_run_as_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert len(re.findall(r"^USER job$", text, re.MULTILINE)) == text.count("\nCMD ")


def test_prometheus_asks_the_job_where_it_listens() -> None:
    (scraped,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["job:8080"]}]
    assert scraped["honor_labels"] is True
    secret = f"/run/secrets/{composed()['services']['prometheus']['secrets'][0]}"
    assert scraped["authorization"]["credentials_file"] == secret


def test_every_port_is_that_of_this_machine_alone() -> None:
    ports = [port for service in composed()["services"].values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def settings(folder: Path, **more: str) -> dict[str, str]:
    (folder / "token").write_text(TOKEN + "\n")
    ours = {"MAINSTAY_TOKEN_FILE": str(folder / "token"), "MAINSTAY_DATA": str(folder)}
    return {**os.environ, **ours, "PYTHONPATH": str(ROOT / "src"), **more}


def test_the_job_of_the_container_runs_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    command = [sys.executable, str(DEPLOY / "job.py")]
    for number in ("300", "500"):
        env = settings(tmp_path, MAINSTAY_ORDERS=number, MAINSTAY_PORT="0")
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "finished\n"
    import pyarrow.dataset as ds

    rows = ds.dataset(tmp_path / "totals", format="parquet").count_rows()
    assert rows == 500


def test_the_job_of_the_container_is_scraped_as_prometheus_does_it(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    sys.path.insert(0, str(DEPLOY))
    try:
        import job as program
    finally:
        sys.path.remove(str(DEPLOY))
    import mainstay as ms

    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings(tmp_path, MAINSTAY_PORT="0").items():
            patch.setenv(name, value)
        env = program.environment(str(tmp_path))
    program.build(env, ms.connectors.Memory(), end=100)
    running = env.start("order-totals")
    running.wait(60)
    port = running.url.partition("/#")[0].rpartition(":")[2]
    header = {"Authorization": f"Bearer {TOKEN}", "Host": "job:8080"}
    scraped = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=header)
    assert scraped.status_code == 200
    assert 'mainstay_job_info{job="order-totals"' in scraped.text
