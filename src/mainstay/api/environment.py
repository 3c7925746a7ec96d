"""The environment: where a job is described and started.

::

    env = Environment(parallelism=2, snapshots=Snapshots("./snapshots", every="1s"))
    env.source(orders, uid="orders").key_by("customer").process(...).sink(...)
    job = env.start("order-totals")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from mainstay.api.availability import HighAvailability
from mainstay.api.backends import HEAP, RocksDB, backend_settings, with_directory
from mainstay.api.checks import checked_schema, described
from mainstay.api.connected_inputs import ConnectedInputs, checked_streams
from mainstay.api.connector_states import refuse_states
from mainstay.api.coordinator_host import checked_host
from mainstay.api.data_sources import as_source
from mainstay.api.graph import GraphBuilder, named
from mainstay.api.job import Job
from mainstay.api.options import Restart, Snapshots
from mainstay.api.otlp import Otlp, exporter_of, otlp_of
from mainstay.api.overrides import PROCESSES, Given, current, overridden
from mainstay.api.restoring import restore_options
from mainstay.api.running import check_free, take
from mainstay.api.source_stream import SourceStream
from mainstay.api.spark_setting import EMBEDDED, checked_spark, is_embedded
from mainstay.api.stream import Stream
from mainstay.api.ui import Ui, opened, ui_of
from mainstay.api.watermark import Watermark
from mainstay.errors import GraphError, RestoreError
from mainstay.masking import masked, shown_settings
from mainstay.own_frames import with_settings
from mainstay.plan import nodes
from mainstay.plan.check import check_graph, check_no_pickles, check_settings, check_shape
from mainstay.plan.explain import explain
from mainstay.plan.logical import Input, LogicalGraph
from mainstay.plan.physical import expand
from mainstay.plan.planning import chained, plan_of
from mainstay.quantities import whole_number
from mainstay.runtime.connector import Source
from mainstay.runtime.coordinator.origin import place_of
from mainstay.runtime.own_states import SPLITS, TOLD
from mainstay.runtime.spec import Forward, JobSpec

Setting = TypeVar("Setting")


@with_settings
class Environment:
    """Holds the settings of a job and the graph that is being built."""

    def __init__(
        self,
        *,
        spark: Any = None,
        coordinator_host: str | None = None,
        parallelism: int = 2,
        max_parallelism: int = 128,
        min_parallelism: int | None = None,
        mode: str = "exactly_once",
        snapshots: Snapshots | None = None,
        restart: Restart | None = None,
        ha: HighAvailability | None = None,
        restore: str | int | os.PathLike[str] | None = None,
        fall_back: bool = False,
        allow_dropped: Sequence[str] = (),
        state: str | RocksDB = HEAP,
        allow_pickle: bool = True,
        ui: Ui | bool | None = None,
        otlp: Otlp | None = None,
    ) -> None:
        given = overridden(Given(spark, parallelism, snapshots, restore, ui))
        spark, parallelism, snapshots, restore, ui = given
        self.spark = spark if spark is PROCESSES else checked_spark(spark)
        self.coordinator_host = checked_host(coordinator_host)
        self.parallelism = whole_number(parallelism, "parallelism")
        self.max_parallelism = whole_number(max_parallelism, "max_parallelism")
        self.min_parallelism = _least(min_parallelism, self.parallelism)
        self.mode = mode
        self.snapshots = _expected(snapshots, Snapshots, "snapshots", 'Snapshots("./dir")')
        self.restart = _expected(restart, Restart, "restart", "Restart()") or self._restart()
        self.ha = _expected(ha, HighAvailability, "ha", 'HighAvailability(lease="10s")')
        if ha is not None and restore is None:
            restore = "latest-or-new"  # each of several drivers may be the first, or start again
        self.restore = restore_options(restore, allow_dropped, fall_back)
        self.state = state
        if not isinstance(allow_pickle, bool):
            raise GraphError(f"allow_pickle={allow_pickle!r} must be True or False.")
        self.allow_pickle = allow_pickle
        self.ui = ui_of(ui)
        self.otlp = otlp_of(otlp)
        self._backend = backend_settings(state)
        check_settings(mode, max_parallelism)
        self._builder = GraphBuilder(parallelism, max_parallelism)
        self._ingests: list[Any] = []

    def __repr__(self) -> str:
        """What was set, as it was set: defaults are left out."""
        restore = self.restore.origin or self.restore.start
        settings = {
            "spark": self.spark,
            "coordinator_host": self.coordinator_host,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism if self.max_parallelism != 128 else None,
            "min_parallelism": self.min_parallelism,
            "mode": self.mode if self.mode != "exactly_once" else None,
            "restore": None if restore == "new" else restore,
            "ha": self.ha,
            "state": None if self.state == HEAP else self.state,
            "ui": self.ui,
            "otlp": self.otlp,
        }
        shown = [f"{name}={value!r}" for name, value in settings.items() if value is not None]
        if self.snapshots is not None:
            shown.append(f"snapshots={shown_settings(self.snapshots)}")
        return f"Environment({masked(', '.join(shown))})"

    def _restart(self) -> Restart:
        """Where somebody sits in front of a job, an error is to be seen and not tried again."""
        return Restart(max_failures=0) if is_embedded(self.spark) else Restart()

    def source(
        self,
        source: Source | Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        watermark: Watermark | None = None,
    ) -> Stream:
        """The beginning of a stream, with event time where a ``watermark`` is given."""
        where = named(uid, "source")
        source = as_source(source, where)
        if not isinstance(source, Source):
            raise GraphError(
                f"{where} needs a source, not {described(source)}. Give it an instance of one of "
                "mainstay.connectors, of your own subclass of mainstay.connectors.Source, or of a "
                "DataSource of PySpark."
            )
        schema = _schema_of(source, where)
        if not isinstance(schema, pa.Schema) or checked_schema(schema, where) != schema:
            raise GraphError(
                f"{where}: the schema of {type(source).__name__} is {schema!r}. It must be a "
                "pyarrow.Schema of Spark's types, as mainstay.schema.to_schema(...) gives it."
            )
        refuse_states(source, where)
        source = self._builder.own(source)
        expected = _expected(watermark, Watermark, "watermark", 'Watermark("at", delay="5s")')
        time = None if expected is None else expected.spec(schema, where)
        if time is not None and source.tells_time:
            time = replace(time, from_rows=False)
        operator = self._builder.add(
            "source",
            nodes.Source(source, time),
            schema,
            {"uid": uid, "parallelism": parallelism},
            states=(SPLITS,) if time is None else (SPLITS, TOLD),
        )
        if source.malformed_column is not None:
            return SourceStream(self._builder, operator, source.malformed_column)
        return Stream(self._builder, schema, (Input(operator.id, Forward()),))

    def connect(self, **streams: Stream) -> ConnectedInputs:
        """Several inputs for one function, each under a name: ``env.connect(orders=orders,
        refunds=refunds, rules=rules.broadcast()).process(function, ...)``.

        All are keyed by the same types, or none is; some may be broadcast instead. The function is
        a :class:`MultiProcess` with a method for each name, such as ``process_orders``.
        """
        return ConnectedInputs(checked_streams(streams))

    def from_dataframe(
        self,
        df: Any,
        *,
        uid: str,
        parallelism: int | None = None,
        watermark: Watermark | None = None,
        in_order: bool = False,
        available_now: bool = False,
        allow_changed_query: bool = False,
    ) -> Stream:
        """A DataFrame of Spark as a stream, batch (bounded) or streaming (unbounded).

        Its rows go through an ingest log in the snapshot directory, which Spark writes exactly
        once: a batch DataFrame before the workers start, a streaming one while the job runs.
        With a ``watermark``, event time moves behind each micro-batch, with the newest time of all
        rows so far, as it does in Spark. No row of a batch DataFrame is late; event time comes to
        its end with it. With ``in_order`` one subtask reads the micro-batches one after the other.

        With ``available_now`` a streaming one is read up to what there is when the job starts, as
        with Spark's trigger of that name. Then the job stops by itself; the next start goes on.

        A job that goes on with another query under the same uid is refused, because it would mix
        the rows of both; ``allow_changed_query`` allows it.
        """
        if self.spark is PROCESSES or is_embedded(self.spark):
            raise GraphError(
                f"from_dataframe(uid={uid!r}) needs Spark, and this job runs without: leave out "
                f"spark={EMBEDDED!r}, or read from one of mainstay.connectors."
            )
        if not isinstance(uid, str) or not uid.strip():
            raise GraphError(f"from_dataframe(uid={uid!r}): the uid is a text that is not empty.")
        from mainstay.spark.ingest.dataframes import ingest_of

        directory = None if self.snapshots is None else os.fspath(self.snapshots.dir)
        _expected(watermark, Watermark, "watermark", 'Watermark("at", delay="5s")')
        ingest = ingest_of(
            df,
            uid,
            directory,
            watermark=watermark,
            in_order=in_order,
            available_now=available_now,
            allow_changed_query=allow_changed_query,
        )
        stream = self.source(ingest.source, uid=uid, parallelism=parallelism, watermark=watermark)
        self._ingests.append(ingest)
        return stream

    # ------------------------------------------------------------ plans

    def graph(self) -> LogicalGraph:
        """The logical graph as it stands, unchecked."""
        return self._builder.graph(self.max_parallelism, self.mode)

    def plan(self) -> JobSpec:
        """The physical graph; raises ``GraphError`` where the program is wrong."""
        return self._planned(self.graph())

    def _planned(self, graph: LogicalGraph) -> JobSpec:
        check_graph(graph)
        if not self.allow_pickle:
            check_no_pickles(graph)
        return replace(plan_of(graph), backend=self._backend, allow_pickle=self.allow_pickle)

    def explain(self) -> str:
        """The logical, the chained and the physical graph as text."""
        graph = self.graph()
        check_shape(graph)
        fused = chained(graph)
        return explain(graph, fused, expand(fused))

    # ------------------------------------------------------------ running

    def start(self, name: str) -> Job:
        """Check the program and start it; ``wait`` of what it returns waits for the end.

        Without Spark it returns at once. On Spark it returns when the session is there, for which
        the first start in a program takes some seconds, and before the workers run.
        """
        if not isinstance(name, str) or not name.strip():
            raise GraphError(f"start({name!r}): the name of a job is a text that is not empty.")
        name = current().name or name
        graph = self.graph()
        spec = self._planned(graph)
        if self.snapshots is None:
            raise GraphError(
                'start() needs a place for snapshots: Environment(snapshots=Snapshots("./dir")).'
            )
        self._check_origin()
        self._check_shared()
        if self.ha is None:
            check_free(self.snapshots.dir)

        def plan_at(parallelism: int) -> JobSpec:
            self._builder.check_rescale(parallelism)
            return self._planned(graph.at(parallelism))

        settings: dict[str, Any] = {
            "directory": os.fspath(self.snapshots.dir),
            "snapshots": with_directory(self.snapshots.parsed(), self._backend),
            "restart": self.restart.parsed(),
            "restore": self.restore,
            "scaling": _scaling(self.parallelism, plan_at, self.min_parallelism),
            "election": _election(self.ha, name, os.fspath(self.snapshots.dir)),
        }
        # First of all: where its port is taken, nothing is to be started.
        server = None if self.ui is None else opened(self.ui)
        exporter = None if self.otlp is None else exporter_of(self.otlp)
        try:
            job = self._started(name, spec, settings)
        except BaseException:
            if server is not None:
                server.close()
            raise
        if server is not None:
            server.serve(job, os.fspath(self.snapshots.dir))
        if exporter is not None:
            exporter.export(job, os.fspath(self.snapshots.dir))
        take(self.snapshots.dir, job)
        current().started(self, job)
        return job  # type: ignore[no-any-return]

    def _started(self, name: str, spec: JobSpec, settings: dict[str, Any]) -> Any:
        from mainstay.drive.compiling import compile_functions
        from mainstay.drive.probe import check_creates

        check_creates(settings["directory"])
        compile_functions(spec)
        if self.spark is PROCESSES:
            from mainstay.drive.processes import start_in_processes

            return start_in_processes(name, spec, **settings)
        if not is_embedded(self.spark):
            further = {
                **settings,
                "ingests": self._ingests,
                "master": current().spark_master,
                "coordinator_host": self.coordinator_host,
            }
            return _start_on_spark(name, spec, self.spark, further)
        from mainstay.drive.embedded import start_embedded

        return start_embedded(name, spec, **settings)

    def _check_shared(self) -> None:
        """Refuse what several drivers of one job cannot have."""
        if self.ha is not None and self._ingests:
            uids = [ingest.uid for ingest in self._ingests]
            raise GraphError(
                f"ha=: the DataFrames of {uids} are read by queries of this driver's own session, "
                "which no other driver can go on with. Read the data from one of "
                "mainstay.connectors; or leave out ha=, and have a supervisor start the program "
                'again with restore="latest-or-new", which goes on from the ingest logs.'
            )

    def _check_origin(self) -> None:
        """Refuse what cannot be started from before anything is started."""
        origin = self.restore.origin
        if origin is None:
            return
        place, _ = place_of(origin)
        if "://" not in place and not os.path.isdir(place):
            raise RestoreError(
                f"there is no savepoint at {place!r}: the folder does not exist. Name the folder "
                "that job.savepoint(...) or job.stop(...) returned."
            )
        if self._ingests:
            uids = [ingest.uid for ingest in self._ingests]
            raise GraphError(
                f"restore={origin!r}: the DataFrames of {uids} are read through ingest logs in "
                "the snapshot directory of the job that was saved, which a savepoint does not "
                'hold. Go on in that directory with restore="latest", or read the data from one '
                "of mainstay.connectors."
            )


def _start_on_spark(name: str, spec: JobSpec, session: Any, settings: dict[str, Any]) -> Job:
    try:
        from mainstay.spark.oldest_pyspark import require_pyspark

        require_pyspark()
        from mainstay.spark.launch.start import start_on_spark
    except ImportError as error:
        raise GraphError(
            f"a job runs on Spark, which is not installed ({error}). Install mainstay[spark], or "
            'run in this process: Environment(spark="embedded").'
        ) from error
    return start_on_spark(name, spec, session=session, **settings)


def _schema_of(source: Source, where: str) -> Any:
    """The schema of a source, which may have to look for it."""
    try:
        return getattr(source, "schema", None)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error


def _expected(value: Any, cls: type[Setting], name: str, example: str) -> Setting | None:
    if value is not None and not isinstance(value, cls):
        raise GraphError(f"{name}={value!r} must be a {cls.__name__}, as in {name}={example}.")
    return value


def _least(given: int | None, parallelism: int) -> int | None:
    if given is None:
        return None
    least = whole_number(given, "min_parallelism")
    if least > parallelism:
        raise GraphError(
            f"min_parallelism={least} is more than parallelism={parallelism}: it is what the job "
            "may go down to where there are too few slots. Lower it, or leave it out."
        )
    return least


def _scaling(parallelism: int, plan_at: Callable[[int], JobSpec], least: int | None) -> Any:
    from mainstay.drive.scaling import Scaling

    return Scaling(parallelism, plan_at, least=least)


def _election(ha: HighAvailability | None, name: str, directory: str) -> Any:
    from mainstay.drive.electing import election_of

    return election_of(ha, name, directory)
