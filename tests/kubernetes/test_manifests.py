"""Manifests: what they say is valid, and what they name is there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kubernetes.manifests import (
    DRIVERS,
    FOLDER,
    SHARED,
    container_of,
    one,
    pod_of,
    read,
    spark_settings,
)
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
IMAGE = "mainstay-job-spark:latest"


def secrets_of_the_page() -> dict[str, set[str]]:
    """The secrets that the page has the reader make, with their keys."""
    made = re.findall(r"kubectl create secret generic (\S+)((?:[\s\\]+--from-\S+)+)", PAGE)
    return {name: set(re.findall(r"--from-\w+=(\w+)", options)) for name, options in made}


def test_every_file_is_known_here_and_on_the_page() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*SHARED, *DRIVERS}
    assert [name for name in (*SHARED, *DRIVERS) if name not in PAGE] == []


@pytest.mark.parametrize("file", [*SHARED, *DRIVERS])
def test_every_object_fits_the_schema_of_kubernetes(file: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for each in read(file):
        validator.validate(each, "1.30", strict=True)


@pytest.mark.parametrize("file", DRIVERS)
def test_what_a_driver_refers_to_is_there(file: str) -> None:
    spec, container = pod_of(file)["spec"], container_of(file)
    one("ServiceAccount", spec["serviceAccountName"])
    secrets = secrets_of_the_page()
    for source in container["envFrom"]:
        if "configMapRef" in source:
            one("ConfigMap", source["configMapRef"]["name"])
        else:
            assert source["secretRef"]["name"] in secrets
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    (item,) = volumes["spark"]["configMap"]["items"]
    assert item["key"] in one("ConfigMap", volumes["spark"]["configMap"]["name"])["data"]
    assert secrets[volumes["token"]["secret"]["secretName"]] == {"token"}


@pytest.mark.parametrize("file", DRIVERS)
def test_what_is_mounted_is_where_the_settings_say(file: str) -> None:
    container = container_of(file)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["SPARK_CONF_DIR"] == mounts["spark"]
    settings = one("ConfigMap", "order-totals")["data"]
    assert settings["MAINSTAY_TOKEN_FILE"] == f"{mounts['token']}/token"


@pytest.mark.parametrize("file", DRIVERS)
def test_services_probes_and_prometheus_meet_the_page(file: str) -> None:
    pod, container = pod_of(file), container_of(file)
    (port,) = container["ports"]
    for name in ("order-totals", "order-totals-driver"):
        selector = one("Service", name)["spec"]["selector"]
        assert selector.items() <= pod["metadata"]["labels"].items()
    (served,) = one("Service", "order-totals")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    # The port of deploy/job.py, where nothing else is said.
    assert f'"MAINSTAY_PORT", "{port["containerPort"]}"' in (ROOT / "deploy/job.py").read_text()
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert asked["path"] in ("/healthz", "/readyz")


def test_executors_have_the_image_and_the_secret_of_their_driver() -> None:
    settings = spark_settings()
    for file in DRIVERS:
        assert container_of(file)["image"] == IMAGE
    assert settings["spark.kubernetes.container.image"] == IMAGE
    account = settings["spark.kubernetes.authenticate.driver.serviceAccountName"]
    one("ServiceAccount", account)
    prefix = "spark.kubernetes.executor.secretKeyRef."
    wanted = [
        (name.removeprefix(prefix), *value.split(":"))
        for name, value in settings.items()
        if name.startswith(prefix)
    ]
    assert {name for name, _, _ in wanted} == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert all(key in secrets_of_the_page()[secret] for _, secret, key in wanted)


def test_the_role_is_that_of_the_account() -> None:
    binding: Any = one("RoleBinding", "order-totals")
    one(binding["roleRef"]["kind"], binding["roleRef"]["name"])
    for subject in binding["subjects"]:
        one(subject["kind"], subject["name"])


def test_drivers_that_stand_by_are_ready() -> None:
    assert container_of("two-drivers.yaml")["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert container_of("job.yaml")["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_job_that_no_restart_heals_is_not_started_again() -> None:
    (job,) = read("job.yaml")
    rules = job["spec"]["podFailurePolicy"]["rules"]
    ((codes),) = [rule["onExitCodes"] for rule in rules if rule["action"] == "FailJob"]
    assert codes["values"] == [1, 78]
    assert codes["containerName"] == container_of("job.yaml")["name"]
