"""Small files of a directory, read through the file systems that a Spark session knows.

A checkpoint is wherever its query could write it, also where Mainstay has no storage of its own.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mainstay.errors import GraphError, RestoreError
from mainstay.spark.launch.spark_errors import summary


class HadoopFiles:
    """The ``TextFiles`` below a directory, whose ``location`` is its full name."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise GraphError(
                "import_checkpoint() needs a classic Spark session: one of Spark Connect does not "
                "give the files of a checkpoint."
            )
        jvm: Any = spark._jvm
        self._jvm = jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        try:
            root = jvm.org.apache.hadoop.fs.Path(directory)
            self._files = root.getFileSystem(conf)
            self._root = self._files.makeQualified(root)
        except (Py4JError, PySparkException) as error:
            raise _unreadable(directory, error) from error
        self.location = str(self._root.toString())

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        try:
            if not self._files.exists(path):
                return []
            return [str(each.getPath().getName()) for each in self._files.listStatus(path)]
        except (Py4JError, PySparkException) as error:
            raise _unreadable(f"{self.location}/{folder}", error) from error

    def text(self, name: str) -> str:
        try:
            stream = self._files.open(self._path(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except (Py4JError, PySparkException) as error:
            raise _unreadable(f"{self.location}/{name}", error) from error

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _unreadable(place: str, error: Exception) -> RestoreError:
    return RestoreError(
        f"{place!r} cannot be read: {summary(str(error))}. Bring its original content back, or "
        "name another checkpoint."
    )
