"""The session that this process works with, where nobody names one."""

from __future__ import annotations

import sys

import pyspark


def prepare_active() -> None:
    """Do what ``Cluster.prepare`` does, where there is a session; in Spark's workers there is none.

    Modules are looked up and not imported: a client may lack what those of the other kind need.
    """
    context = getattr(pyspark, "SparkContext", None)
    if context is not None and context._active_spark_context is not None:
        from mainstay.spark.launch.classic_cluster import prepare_context

        prepare_context(context._active_spark_context)
    connect = sys.modules.get("pyspark.sql.connect.session")
    session = None if connect is None else connect.SparkSession.getActiveSession()
    if session is not None:
        from mainstay.spark.launch.cluster import cluster_of

        cluster_of(session).prepare()
