"""The commands of the manifests, run by the real programs against an API server of our own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")

from tests.kubernetes.manifests import container_of, expanded, one, write_settings
from tests.pages import ROOT
from tests.services.kubernetes import Kubernetes

pytestmark = pytest.mark.spark

DEPLOY = ROOT / "deploy"
POD = "order-totals-x7k2p"
ORDERS = 3000
PATIENCE_S = 400.0
IN_CLUSTER = "k8s://https://kubernetes.default.svc"
QUICK = {
    # The server here answers no watches.
    "spark.kubernetes.executor.enableApiWatcher": "false",
    "spark.kubernetes.executor.apiPollingInterval": "1s",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}


def environment(folder: Path, file: str) -> dict[str, str]:
    """The variables of the driver's container, as far as they fit a machine without pods."""
    import pyspark

    (folder / "token").write_text("0123456789abcdef\n")
    write_settings(folder, **QUICK)
    home = Path(pyspark.__file__).parent
    told = one("ConfigMap", "order-totals")["data"]
    variables = {
        each["name"]: each["value"] for each in container_of(file)["env"] if "value" in each
    }
    names = {"POD_NAME": POD, "POD_NAMESPACE": "default", "POD_IP": "127.0.0.1"}
    ours = {
        "MAINSTAY_DATA": str(folder / "data"),
        "MAINSTAY_TOKEN_FILE": str(folder / "token"),
        "MAINSTAY_PORT": "0",
        "MAINSTAY_ORDERS": str(ORDERS),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{home}/bin:{os.environ['PATH']}",
    }
    given = {name: expanded([value], **names)[0] for name, value in {**told, **variables}.items()}
    return {**os.environ, **given, **ours}


@pytest.mark.parametrize(
    "file", ["job.yaml", pytest.param("two-drivers.yaml", marks=pytest.mark.soak)]
)
def test_the_command_of_a_driver_runs_the_job_on_executors_of_its_own(
    file: str, tmp_path: Path
) -> None:
    with Kubernetes(tmp_path, DEPLOY / "entrypoint.sh", driver=POD) as kubernetes:
        words = expanded(
            [word.replace(IN_CLUSTER, kubernetes.master) for word in container_of(file)["args"]],
            POD_NAMESPACE="default",
            POD_NAME=POD,
        )
        # The name of the headless service is known in a cluster alone.
        words = [word.replace("order-totals-driver.default.svc", "127.0.0.1") for word in words]
        assert kubernetes.master in words
        done = subprocess.run(
            ["bash", str(DEPLOY / "entrypoint.sh"), *words],
            cwd=DEPLOY,
            env=environment(tmp_path, file),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        told = f"{shlex.join(words)}\n{done.stderr}\n{executors_said(tmp_path)}"
        assert done.returncode == 0, told
    assert done.stdout.endswith("finished\n")
    assert ds.dataset(tmp_path / "data" / "totals", format="parquet").count_rows() == ORDERS
    assert executors_said(tmp_path)
    assert kubernetes.asked <= allowed(), kubernetes.asked


def executors_said(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*-exec-*.log")))


def allowed() -> set[tuple[str, str]]:
    """What the role lets the driver do."""
    rules = one("Role", "order-totals")["rules"]
    return {
        (verb, resource)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
