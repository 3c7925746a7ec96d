"""As much of Kubernetes as Spark's driver asks for: an API server on loopback, and a node.

The node runs the executor of each pod as a process of this machine, with the entry point of our
image and the variables of the pod.

::

    with Kubernetes(folder, entrypoint, driver="driver-0") as kubernetes:
        kubernetes.master                 # "k8s://http://127.0.0.1:41000"
        kubernetes.pods                   # as they were posted, by name
        kubernetes.asked                  # ("create", "pods"), ... as roles speak of it
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyspark

Json = dict[str, Any]
ADDRESS = "127.0.0.1"
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update"}


class Kubernetes:
    """One namespace. Pods that were posted run until they are deleted or it is closed."""

    def __init__(self, folder: Path, entrypoint: Path, driver: str) -> None:
        self._folder = folder
        self._entrypoint = entrypoint
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.pods: dict[str, Json] = {}
        self.asked: set[tuple[str, str]] = set()
        self._driver = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": driver, "uid": "1"}}
        self._server = ThreadingHTTPServer((ADDRESS, 0), self._handler())
        self.master = f"k8s://http://{ADDRESS}:{self._server.server_port}"

    def __enter__(self) -> Kubernetes:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait(10)

    # ------------------------------------------------------------ the node

    def _run(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        variables = {each["name"]: _value(each, pod) for each in container["env"]}
        # A directory that Kubernetes would mount, and a home that the image has.
        variables |= {"SPARK_LOCAL_DIRS": str(self._folder / name)}
        variables |= {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
        variables.pop("SPARK_CONF_DIR", None)
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                ["bash", str(self._entrypoint), *container["args"]],
                env={**os.environ, **variables},
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def _seen(self, pod: Json) -> Json:
        """A pod with the status of its process."""
        code = self._processes[pod["metadata"]["name"]].poll()
        (container,) = pod["spec"]["containers"]
        state: Json = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        status = {"name": container["name"], "state": state, "ready": code is None}
        status |= {"image": "", "imageID": "", "restartCount": 0}
        return {
            **pod,
            "status": {"phase": phase, "podIP": ADDRESS, "containerStatuses": [status]},
        }

    # ------------------------------------------------------------ the API

    def answer(self, method: str, url: str, body: Json) -> tuple[int, Json]:
        parts = urlsplit(url).path.strip("/").split("/")[4:]
        resource, name = parts[0], parts[1] if len(parts) > 1 else None
        is_one = name is not None
        verb = (
            VERBS.get(method)
            or {
                ("GET", True): "get",
                ("GET", False): "list",
                ("DELETE", True): "delete",
                ("DELETE", False): "deletecollection",
            }[method, is_one]
        )
        with self._lock:
            self.asked.add((verb, resource))
            if resource != "pods":
                return 200, body or {
                    "kind": "List",
                    "apiVersion": "v1",
                    "metadata": {},
                    "items": [],
                }
            return getattr(self, f"_{verb}")(name, url, body)

    def _create(self, name: str | None, url: str, pod: Json) -> tuple[int, Json]:
        given = {"uid": pod["metadata"]["name"], "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod["metadata"] |= given
        self.pods[pod["metadata"]["name"]] = pod
        self._run(pod)
        return 201, self._seen(pod)

    def _list(self, name: str | None, url: str, body: Json) -> tuple[int, Json]:
        wanted = parse_qs(urlsplit(url).query).get("labelSelector", [""])[0]
        found = [self._seen(pod) for pod in self.pods.values() if _matches(pod, wanted)]
        return 200, {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
            "items": found,
        }

    def _get(self, name: str | None, url: str, body: Json) -> tuple[int, Json]:
        if name == self._driver["metadata"]["name"]:
            return 200, self._driver
        if name not in self.pods:
            return 404, {"kind": "Status", "code": 404, "message": f"no pod {name}"}
        return 200, self._seen(self.pods[name])

    def _patch(self, name: str | None, url: str, body: Json) -> tuple[int, Json]:
        return self._get(name, url, body)

    def _delete(self, name: str | None, url: str, body: Json) -> tuple[int, Json]:
        if name in self.pods:
            del self.pods[name]
            self._processes[name].terminate()
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _deletecollection(self, name: str | None, url: str, body: Json) -> tuple[int, Json]:
        for each in list(self.pods):
            self._delete(each, url, body)
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                given = self.rfile.read(length)
                is_json = "json" in self.headers.get("Content-Type", "")
                body = json.loads(given) if given and is_json else {}
                code, found = answer(self.command, self.path, body)
                data = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do  # noqa: N815

            def log_message(self, *arguments: Any) -> None:
                """Requests are in ``asked``."""

        return Handler


def _value(variable: Json, pod: Json) -> str:
    """The value of a variable of a pod, as a node finds it."""
    source = variable.get("valueFrom", {})
    if "fieldRef" in source:
        fields = {"status.podIP": ADDRESS, "metadata.name": pod["metadata"]["name"]}
        return fields[source["fieldRef"]["fieldPath"]]
    if "secretKeyRef" in source:
        return "secret of {name}, {key}".format(**source["secretKeyRef"])
    return str(variable.get("value", ""))


def _matches(pod: Json, selector: str) -> bool:
    """Equalities and inequalities, as Spark writes them; other terms are met by every pod here."""
    labels = pod["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        name, is_not, value = term.partition("!=")
        if is_not:
            if labels.get(name.strip()) == value.strip():
                return False
            continue
        name, is_equal, value = term.partition("=")
        if is_equal and labels.get(name.strip()) != value.strip(" ="):
            return False
    return True
