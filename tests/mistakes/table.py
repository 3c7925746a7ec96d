"""The table of mistakes: each an edit of a right program, with what its author sees.

``says`` is the message as it is printed, where ``…`` stands for anything; tests hold it against
the real output, and ``docs/mistakes.md`` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mistakes import programs, spoiling

FAILED = 1
INTERRUPTED = -2
"""What a shell shows as 130."""

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake, what it looks like in the program, and what is seen of it."""

    name: str
    edits: Edits
    says: str
    remedy: str
    """What to do, for the page."""
    program: str = programs.COUNT
    code: int = FAILED
    runs: bool = False
    """Whether the job had begun, so that the mended program has to go on where it was."""
    again: bool = True
    """Whether a job that had finished and is started again with it says the same."""
    used: bool = False
    """Whether it is one in a directory with a history alone."""
    spoil: Callable[[Path], None] | None = None
    """What happens to the files before the program runs, and how they are brought back."""
    mend: Callable[[Path], None] | None = None
    interrupt: str = ""
    """What the program prints when its author presses Ctrl-C."""
    ends: bool = True
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.name.replace(" ", "-")

    def wrong(self, program: str) -> str:
        """The program with the mistake in it."""
        for old, new in self.edits:
            assert program.count(old) == 1, f"{self.name}: {old!r} is not there once"
            program = program.replace(old, new)
        return program


RAISE = "raise ValueError('no such customer')"


def _edit(old: str, new: str) -> Edits:
    return ((old, new),)


def _before(line: str, *new: str, indent: int = 4) -> Edits:
    return ((line, f"\n{' ' * indent}".join([*new, line])),)


def _setting(text: str) -> Edits:
    return _before("restore=", f"{text},")


def _files_with(option: str) -> Edits:
    return _edit('customer string")\n(', f'customer string", {option})\n(')


PROGRAM = (
    Mistake(
        "a column that is not there",
        _edit('.key_by(customer, "string", uid="customer")', '.key_by("custmer")'),
        "key_by() after operator 'real': there is no column 'custmer'; the stream has 'id', "
        "'customer'. Did you mean 'customer'?",
        "Name one of the columns of the message.",
    ),
    Mistake(
        "a key function without a type",
        _edit('key_by(customer, "string", uid="customer")', "key_by(customer)"),
        "a key function needs the type of the key, as in key_by(lambda row: row.name[0], "
        '"string").',
        "Give the type after the function.",
    ),
    Mistake(
        "too few parameters",
        _edit("def process(self, row, ctx):", "def process(self, row):"),
        "operator 'counts' (process): process(row) cannot be called with 2 arguments: … Write "
        "def process(self, row, ctx).",
        "Write the method as the message has it.",
    ),
    Mistake(
        "a class in place of an instance",
        _edit("Count()", "Count"),
        "operator 'counts' (process) got the class Count; give it an instance: Count(...).",
        "Add the brackets.",
    ),
    Mistake(
        "no key_by before a function with keyed state",
        _edit('    .key_by(customer, "string", uid="customer")\n', ""),
        "operator 'counts' (process) needs a Process, not Count. For a KeyedProcess call "
        "key_by(...) first.",
        "Call `key_by`, or write a `Process`.",
    ),
    Mistake(
        "no sink",
        _edit('counts.sink(ms.connectors.ParquetSink("./counts"), uid="out")\n', ""),
        "nothing reads what operator 'counts' (process) emits. End the stream with .sink(...), or "
        "leave the operator out.",
        "End every stream with a sink.",
    ),
    Mistake(
        "no schema",
        _edit('Count(), "customer string, count long"', "Count()"),
        "operator 'counts' (process) needs the schema of the rows it emits, after the function",
        "Say which columns the function emits.",
    ),
    Mistake(
        "a directory for two sinks",
        _edit(
            'counts.sink(ms.connectors.ParquetSink("./counts"), uid="out")',
            "for uid in ('out', 'out2'):\n"
            '    counts.sink(ms.connectors.ParquetSink("./counts"), uid=uid)',
        ),
        "operator 'out2' (ParquetSink) writes to '…counts', as operator 'out' does, and a "
        "directory belongs to one sink. Give it another directory, or write both streams with one "
        "sink: stream.union(other).sink(...).",
        "One directory for each sink.",
    ),
    Mistake(
        "a misspelt type",
        _edit('count long"', 'count lnog"'),
        "operator 'counts' (process): cannot read 'customer string, count lnog' as a type or "
        "schema, at position 23: 'lnog' is not a type; … Did you mean 'long'?",
        "The types are those of Spark's DDL.",
    ),
    Mistake(
        "a state with its arguments swapped",
        _edit('AggregatingState(Counting(), "long")', 'AggregatingState("long", Counting())'),
        "AggregatingState('long', ...): the function comes first, then the type of its "
        "accumulator. Write AggregatingState(YourFunction(), 'long').",
        "The function comes first.",
        programs.AGGREGATE,
    ),
    Mistake(
        "a text as a condition",
        _edit("filter(is_order,", 'filter("id >= 0",'),
        "operator 'real' (filter): a text such as 'id >= 0' is no condition. Write "
        'ms.col("amount") > 5, or lambda row: row.amount > 5.',
        "Write an expression or a function.",
    ),
    Mistake(
        "a uid twice",
        _edit('uid="real"', 'uid="orders"'),
        "uid 'orders' of operator filter is that of another operator (map) already. State is "
        "found by uid: give each operator one of its own.",
        "Give each operator a uid of its own.",
    ),
    Mistake(
        "no uid",
        _edit(', uid="counts"', ""),
        "UserWarning: operator 'process-1' has state but no uid of its own. Its state is lost "
        'when the program changes: write uid="...".',
        "Give every operator with state a uid before the job has state to lose.",
        code=0,
    ),
    Mistake(
        "a lock in a closure",
        _edit(
            "def is_order(row):\n",
            "import threading\n\nlock = threading.Lock()\n\n\n"
            "def is_order(row):\n    lock.locked()\n",
        ),
        "operator 'real' (filter) cannot be sent to the workers: TypeError: cannot pickle "
        "'_thread.lock' object. Open connections, files and locks in open(), not in the "
        "function's constructor or closure.",
        "Make it in `open` of a `Process` or `KeyedProcess`.",
    ),
    Mistake(
        "no place for snapshots",
        _edit('    snapshots=ms.Snapshots("./snapshots", every="100ms"),\n', ""),
        'start() needs a place for snapshots: Environment(snapshots=Snapshots("./dir")).',
        "Give the environment `Snapshots`.",
    ),
    Mistake(
        "a DataFrame without Spark",
        _edit('env.source(numbers, uid="numbers")', 'env.from_dataframe(numbers, uid="numbers")'),
        "from_dataframe(uid='numbers') needs Spark, and this job runs without: leave out "
        "spark='embedded', or read from one of mainstay.connectors.",
        'Leave out `spark="embedded"`.',
    ),
    Mistake(
        "no job.wait()",
        _edit("print(job.wait())", "print(job)"),
        "job 'count' was … when the program ended, and ended with it. Call job.wait() before the "
        "end of the program",
        "Wait for the job: it ends with the program that started it.",
        code=0,
        runs=True,
    ),
)

SPELLING = (
    Mistake(
        "a misspelt spark",
        _edit('"embedded"', '"embeded"'),
        "spark='embeded' must be 'embedded', a SparkSession, the address of a Spark Connect server "
        "such as 'sc://host:15002', or None, for a local session of the job's own. Did you mean "
        "spark='embedded'?",
        "One of those.",
    ),
    Mistake(
        "a misspelt mode",
        _setting('mode="exactly-onec"'),
        "mode='exactly-onec' is unknown; choose one of exactly_once, at_least_once, unaligned. "
        "Did you mean 'exactly_once'?",
        "One of those ([modes](modes.md)).",
    ),
    Mistake(
        "a misspelt state",
        _setting('state="rokcsdb"'),
        "state='rokcsdb' is unknown. Use \"heap\" for state in memory, or ms.RocksDB(...) for "
        "state beyond it, or ms.Postgres(dsn) for state in a database.",
        "One of those ([backends](backends.md)).",
    ),
    Mistake(
        "a misspelt restore",
        _edit('restore="latest-or-new"', 'restore="lastest"'),
        'restore=\'lastest\' is unknown. Use "latest", "latest-or-new", the number of an epoch, '
        'the path of a savepoint ("./folder"), or leave it out to start fresh. Did you mean '
        "'latest'?",
        "One of those ([savepoints](savepoints.md)).",
    ),
    Mistake(
        "a misspelt duration",
        _edit('every="100ms"', 'every="10 sceonds"'),
        'every=\'10 sceonds\' is no duration. Write a number and a unit, as in "500ms", "10s", '
        '"5 min" or "7 days". Did you mean \'10 second\'?',
        "A number and a unit.",
    ),
    Mistake(
        "a misspelt redistribute",
        _before(
            "orders = ms.ReducingState",
            'seen = ms.OperatorListState("long", redistribute="brodcast")',
        ),
        "redistribute='brodcast' is unknown; choose one of 'split', 'union', 'broadcast'. Did you "
        "mean 'broadcast'?",
        "One of those ([state](state.md)).",
    ),
    Mistake(
        "a watermark of a column that is not there",
        _edit('uid="numbers")', 'uid="numbers", watermark=ms.Watermark("idd"))'),
        "operator 'numbers' (source): there is no column 'idd'; the stream has 'id'. Did you mean "
        "'id'?",
        "Name one of the columns of the source.",
    ),
    Mistake(
        "a watermark of a column without times",
        _edit('uid="numbers")', 'uid="numbers", watermark=ms.Watermark("id"))'),
        "operator 'numbers' (source): the watermark's column 'id' is of type long; event time is "
        "a timestamp. Name a column of that type, or have the source give one.",
        "Name a timestamp ([event time](event_time.md)).",
    ),
    Mistake(
        "a misspelt format",
        _files_with('format="cvs"'),
        "Files(format='cvs'): the formats are csv, json, parquet. Did you mean 'csv'?",
        "One of those ([files](connectors/files.md)).",
        programs.FILES,
    ),
    Mistake(
        "a misspelt malformed",
        _files_with('malformed="skpi"'),
        "Files(malformed='skpi') must be one of 'fail', 'skip', 'side'. Did you mean 'skip'?",
        "One of those ([files](connectors/files.md)).",
        programs.FILES,
    ),
    Mistake(
        "a misspelt setting",
        _setting("paralelism=2"),
        "KeywordError: Environment() has no argument 'paralelism'. Did you mean 'parallelism'? It "
        "takes spark, coordinator_host, parallelism, …",
        "One of those ([running](running.md)).",
    ),
    Mistake(
        "a misspelt argument of a method",
        _edit('uid="customer"', 'uidd="customer"'),
        "KeywordError: Stream.key_by() has no argument 'uidd'. Did you mean 'uid'? It takes uid, …",
        "One of those.",
    ),
    Mistake(
        "a misspelt argument of a sink",
        _edit('ParquetSink("./counts")', 'ParquetSink("./counts", partion_by=["customer"])'),
        "KeywordError: ParquetSink() has no argument 'partion_by'. Did you mean 'partition_by'? It "
        "takes path, …",
        "One of those.",
    ),
    Mistake(
        "a misspelt type of a state",
        _edit('ReducingState("long"', 'ReducingState("lnog"'),
        "SchemaError: cannot read 'lnog' as a type or schema, at position 0: 'lnog' is not a type; "
        "… Did you mean 'long'?",
        "The types are those of Spark's DDL.",
    ),
)

ROWS = (
    Mistake(
        "an attribute that a row does not have",
        _edit("return row.customer", "return row.custmer"),
        "operator 'customer', subtask …: AttributeError: the row has no column 'custmer'; its "
        "columns are id, customer. Did you mean 'customer'?",
        "Name one of the columns of the message.",
        runs=True,
    ),
    Mistake(
        "a value of another type",
        _edit("yield ctx.key, self.orders.get()", "yield ctx.key, str(self.orders.get())"),
        "operator 'counts', column 'count': the value '…' of type str does not fit the declared "
        "type long; convert the value or change the declaration",
        "Convert the value, or declare the type that it has.",
        runs=True,
    ),
    Mistake(
        "too few columns in a row",
        _edit("yield ctx.key, self.orders.get()", "yield (ctx.key,)"),
        "operator 'counts': a row has 1 value but the schema has 2 columns (customer, count): "
        "('customer …',). Give a value for each column, or change the schema",
        "Yield a value for each column.",
        runs=True,
    ),
    Mistake(
        "a bare value in place of a row",
        _edit("yield ctx.key, self.orders.get()", "yield self.orders.get()"),
        "operator 'counts': … is not a row; give a tuple, a list, a dict or a Row with the columns "
        "customer, count",
        "Yield a tuple, also of one value: `yield (total,)`.",
        runs=True,
    ),
    Mistake(
        "a list in place of a row",
        _edit("yield ctx.key, self.orders.get()", "return [ctx.key, self.orders.get()]"),
        "SchemaError: operator 'counts': 'customer …' is not a row; … A list that process or "
        "flat_map returns is several rows: for one row, return a tuple, a dict or a Row …"
        "line …, in process",
        "Return a tuple: `return ctx.key, total`.",
        runs=True,
    ),
    Mistake(
        "a map that returns nothing",
        _edit('return row.id, f"customer {row.id % 10}"', "pass"),
        "operator 'orders': None is not a row; give a tuple, a list, a dict or a Row with the "
        "columns id, customer. To leave rows out, use filter(...), or flat_map(...) and return "
        "nothing",
        "Return a row, or use `filter` or `flat_map`.",
        runs=True,
    ),
    Mistake(
        "a function without yield",
        _edit("yield ctx.key, self.orders.get()", "pass"),
        "job 'count', operator 'counts': 0 rows out of 400 in; does its function lack a yield or "
        "a return?",
        "Yield the rows. The state has counted those that were read: start over in another "
        "directory, or from an earlier epoch.",
        code=0,
    ),
    Mistake(
        "a key of another type",
        _edit("return row.customer", "return 7"),
        "operator 'customer' (the key function), … the value 7 of type int does not fit the "
        "declared type string … convert the value or change the declaration",
        "Convert the key, or declare the type that it has.",
        runs=True,
    ),
    Mistake(
        "a value that does not fit its state",
        _edit("self.orders.add(1)", 'self.orders.add("1")'),
        "operator 'counts', subtask …: StateTypeError: state 'orders': '1' (str) does not fit the "
        "declared type long. Convert it before storing it, or declare another type.",
        "Convert the value, or declare another type.",
        runs=True,
    ),
    Mistake(
        "keyed state in open",
        _edit("self.subtask = ctx.subtask", "self.subtask = self.orders.get()"),
        "operator 'counts', subtask …, in open(): … keyed state was used where there is no key: "
        "only a row has one, and only until its call of process() returns. … Keep what belongs to "
        "no key in an OperatorListState.",
        "Use keyed state where there is a row.",
        runs=True,
    ),
)

CALLBACKS = (
    Mistake(
        "an exception in process",
        _before("self.orders.add(1)", "if row.id % 400 == 310:", f"    {RAISE}", indent=8),
        "operator 'counts', subtask …: ValueError: no such customer …program.py\", line …, in "
        "process …ValueError: no such customer",
        "Mend the line that the traceback names; the job goes on from the last epoch.",
        runs=True,
    ),
    Mistake(
        "an exception in open",
        _before("self.subtask = ctx.subtask", RAISE, indent=8),
        "operator 'counts', subtask …, in open(): ValueError: no such customer … line …, in open",
        "Mend the line that the traceback names.",
        runs=True,
    ),
    Mistake(
        "an exception in map",
        _before("return row.id, f", "if row.id % 400 == 310:", f"    {RAISE}"),
        "operator 'orders', subtask …: ValueError: no such customer … line …, in order",
        "Mend the line that the traceback names.",
        runs=True,
    ),
    Mistake(
        "an exception in filter",
        _before("return row.id >= 0", "if row.id % 400 == 310:", f"    {RAISE}"),
        "operator 'real', subtask …: ValueError: no such customer … line …, in is_order",
        "Mend the line that the traceback names.",
        runs=True,
    ),
    Mistake(
        "an exception in a key function",
        _before("return row.customer", "if row.id % 400 == 310:", f"    {RAISE}"),
        "operator 'customer', subtask …: ValueError: no such customer … line …, in customer",
        "Mend the line that the traceback names.",
        runs=True,
    ),
    Mistake(
        "an exception in reduce",
        _before("return row.customer, so_far", "if so_far.count % 40 == 31:", f"    {RAISE}"),
        "operator 'counts', subtask …: ValueError: no such customer … line …, in total",
        "Mend the line that the traceback names.",
        programs.REDUCE,
        runs=True,
    ),
    Mistake(
        "an exception in an aggregate function",
        _before(
            "return accumulator + value", "if accumulator % 40 == 31:", f"    {RAISE}", indent=8
        ),
        "operator 'counts', subtask …: ValueError: no such customer … line …, in add",
        "Mend the line that the traceback names.",
        programs.AGGREGATE,
        runs=True,
    ),
    Mistake(
        "an exception in on_snapshot_complete",
        _before("self.epoch = epoch", RAISE, indent=8),
        "operator 'counts', subtask …, in on_snapshot_complete(): ValueError: no such customer … "
        "line …, in on_snapshot_complete",
        "Mend the line that the traceback names; the epoch itself is complete.",
        runs=True,
    ),
    Mistake(
        "an exception in close",
        _edit("self.subtask = None", "self.connection.close()"),
        "job 'count': worker … could not close its functions: operator 'counts', subtask …, in "
        "close(): AttributeError: 'Count' object has no attribute 'connection' … line …, in close",
        "Mend the line that the traceback names; the result is not touched by it.",
        code=0,
        runs=True,
    ),
    Mistake(
        "sys.exit in a function",
        _before(
            "self.orders.add(1)", "if row.id % 400 == 310:", "    raise SystemExit(3)", indent=8
        ),
        "operator 'counts', subtask …: SystemExit: 3 … line …, in process",
        "Raise an error, or end the job from outside with `job.stop()`.",
        runs=True,
    ),
    Mistake(
        "an exception that is no Exception",
        _before(
            "yield ctx.key, self.orders.get()",
            "raise type('Halt', (BaseException,), {})('no more')",
            indent=8,
        ),
        "operator 'counts', subtask …: Halt: no more … line …, in process",
        "Derive it from `Exception`.",
        runs=True,
    ),
    Mistake(
        "next() on an empty iterator",
        _before("return row.id >= 0", "if row.id % 400 == 310:", "    next(iter([]))"),
        "operator 'real', subtask …: StopIteration … line …, in is_order",
        "Give `next` a default: `next(found, None)`.",
        runs=True,
    ),
    Mistake(
        "a function that does not come back",
        _before("return row.id >= 0", "import time", "time.sleep(600)"),
        "job 'count' has waited for … s for program.py, line …, in is_order: time.sleep(600). "
        "Nothing else is done meanwhile: give what it calls a timeout",
        "Give calls to the outside a timeout.",
        runs=True,
        ends=False,
    ),
    Mistake(
        "an exception in a source's plan",
        _edit('f"orders-{n}"', 'f"orders-{number}"'),
        "in plan … source 'orders' cannot be planned: NameError: name 'number' is not defined",
        "Mend the line that the traceback names.",
        programs.OWN_SOURCE,
        runs=True,
    ),
    Mistake(
        "an exception in a source's poll",
        _before("self.offset = min(", "if first % 400 == 250:", f"    {RAISE}", indent=8),
        "in poll … source 'orders', subtask …: split 'orders-…00' cannot be read at offset …50: "
        "ValueError: no such customer",
        "Mend the line that the traceback names.",
        programs.OWN_SOURCE,
        runs=True,
    ),
    Mistake(
        "a source that blocks",
        _before("self.offset = min(", "import time", "time.sleep(600)", indent=8),
        "job 'count' has waited for … s for program.py, line …, in poll: time.sleep(600). … a "
        "source whose poll() waits for rows says may_block = True",
        "Set `may_block = True` on the source, and give its calls a timeout.",
        programs.OWN_SOURCE,
        runs=True,
        ends=False,
    ),
    Mistake(
        "an exception in a sink's write",
        _before("self.rows += [", RAISE, indent=8),
        "in write … sink 'out', subtask … cannot be written: ValueError: no such customer",
        "Mend the line that the traceback names.",
        programs.OWN_SINK,
        runs=True,
    ),
    Mistake(
        "wrong code in a sink's commit",
        _edit('pathlib.Path("committed", name)', 'pathlib.Path("committed", nmae)'),
        "in commit … sink 'out', subtask … cannot be committed: NameError: name 'nmae' is not "
        "defined",
        "Mend the line that the traceback names; the epoch is committed when the job goes on.",
        programs.OWN_SINK,
        runs=True,
    ),
    Mistake(
        "a sink whose target is away",
        _before('pathlib.Path("committed").mkdir', RAISE.replace("Value", "Connection"), indent=8),
        "job 'count': sink 'out', subtask … has not confirmed epoch … for … s: ConnectionError: no "
        "such customer",
        "Nothing, if it comes back: the commit is tried until it works. Otherwise cancel, mend, "
        "and go on.",
        programs.OWN_SINK,
        runs=True,
        ends=False,
    ),
)

PLACES = (
    Mistake(
        "a wrong input path",
        _edit("./orders/*.csv", "./order/*.csv"),
        "source 'orders' cannot be planned: no file matches './order/*.csv' (in '…'). Correct the "
        "path; one that may match nothing has no place among the paths of a bounded Files(...).",
        "Correct the path; the message says below which directory it is looked for.",
        programs.FILES,
        runs=True,
    ),
    Mistake(
        "a column twice in a file",
        _edit(
            '"id,customer\\n" + "\\n".join(lines)',
            '"id,customer,customer\\n" + ",x\\n".join(lines)',
        ),
        "….csv' (csv): it has the column 'customer' more than once, and which is meant cannot be "
        "known. Give each column of the header a name of its own.",
        "Rename one of the columns in the header.",
        programs.FILES,
    ),
    Mistake(
        "a file in UTF-16",
        _edit('"\\n".join(lines) + "\\n")', '"\\n".join(lines) + "\\n", encoding="utf-16")'),
        "….csv is UTF-16, by its first bytes (ff fe …), and files are read as UTF-8. Convert it, "
        "as in iconv -f UTF-16 -t UTF-8.",
        "Convert the file to UTF-8.",
        programs.FILES,
    ),
    Mistake(
        "a damaged input file",
        _edit(', malformed="skip")', ")"),
        "the record at … does not fit the schema: … Correct the schema, or give the source "
        "malformed='skip' to leave such records out, or malformed='side' to have them in a stream "
        "of their own.",
        "Say what is to be done with such records. A file that no epoch knows yet may be repaired.",
        programs.DAMAGED,
        runs=True,
        again=False,
    ),
    Mistake(
        "a snapshot directory that cannot be made",
        _edit('"./snapshots"', '"/proc/snapshots"'),
        "cannot open the storage '/proc/snapshots': … Name a folder that this process may make and "
        "write.",
        "Name another folder, or give this one the rights.",
    ),
    Mistake(
        "a file in place of the snapshot directory",
        _edit('"./snapshots"', '"./program.py"'),
        "cannot open the storage '…program.py': it is a file. Name a folder that this process may "
        "make and write.",
        "Name a folder.",
    ),
    Mistake(
        "a fresh start in a used directory",
        _edit('    restore="latest-or-new",\n', ""),
        "the snapshot directory holds the history of job 'count' (… epochs). Go on from it with "
        'restore="latest", or choose another directory.',
        'Say `restore="latest"`, or choose another directory.',
        used=True,
    ),
    Mistake(
        "the directory of another job",
        _edit('env.start("count")', 'env.start("totals")'),
        "the snapshot directory holds the history of job 'count', and this job is 'totals'. Go on "
        "with it under its name, start('count'); or give this job a directory of its own",
        "One directory for each job.",
        used=True,
    ),
    Mistake(
        "a state of another type",
        _edit('ReducingState("long"', 'ReducingState("string"'),
        "state 'counts.orders' was stored as reducing of long and is now declared as reducing of "
        "string … Declare it as before, convert its values with migrate=<a function of the old "
        "value>, or give it another name to start empty.",
        "One of those ([upgrades](state.md)).",
        used=True,
    ),
    Mistake(
        "a uid that is no more",
        _edit('uid="counts"', 'uid="totals"'),
        "the job has no operator 'counts', but the snapshot holds its state. Give the operator "
        "that should have it uid='counts', or drop the state for good with "
        "allow_dropped=['counts.orders'].",
        "Give the operator its old uid.",
        used=True,
    ),
    Mistake(
        "another max_parallelism",
        _setting("max_parallelism=64"),
        "epoch … was written with max_parallelism=128, the job asks for 64. … set "
        "max_parallelism=128, or rewrite the state with mainstay.spark.rebucket(…)",
        "Keep the old number, or rewrite the state.",
        used=True,
    ),
    Mistake(
        "a damaged snapshot file",
        (),
        "state/counts/….msty is damaged: expected … checksum …, found …. Bring the original file "
        "back or restore an older epoch.",
        "Bring a copy back, or go on from an older epoch: `restore=7`, or `fall_back=True`.",
        used=True,
        spoil=spoiling.damage_state,
        mend=spoiling.bring_state_back,
    ),
    Mistake(
        "a lost snapshot file",
        (),
        "state/counts/….msty is damaged: expected a file of … bytes, found none. Bring the "
        "original file back or restore an older epoch.",
        "Bring a copy back, or go on from an older epoch: `restore=7`, or `fall_back=True`.",
        used=True,
        spoil=spoiling.lose_state,
        mend=spoiling.bring_state_back,
    ),
    Mistake(
        "no Java",
        _edit('    spark="embedded",\n', ""),
        "Spark needs Java 17 or newer and none was found. Install a JDK and set JAVA_HOME, or run "
        'without Spark: Environment(spark="embedded").',
        "Install Java, or run embedded.",
        environ={"PATH": "/nonexistent", "JAVA_HOME": ""},
    ),
    Mistake(
        "another Python for Spark's workers",
        _edit('    spark="embedded",\n', ""),
        "this is Python … and the workers' … is …. Set PYSPARK_PYTHON=… before the session is "
        "started.",
        "Unset `PYSPARK_PYTHON`, or name the Python of the driver.",
        environ={"PYSPARK_PYTHON": spoiling.another_python()},
    ),
)

ENDS = (
    Mistake(
        "a failed job that is printed",
        _edit(
            "print(job.wait())",
            "try:\n    job.wait()\nexcept ms.errors.MainstayError:\n    print(job)",
        )
        + _edit("self.orders.add(1)", "self.orders.add(1 // 0)"),
        "<Job 'count': failed, … parallelism 2: operator 'counts', subtask …: ZeroDivisionError: "
        "integer division or modulo by zero>",
        "`job.attempts()` has the reasons of all attempts.",
        runs=True,
        code=0,
    ),
    Mistake(
        "Ctrl-C",
        _edit("rows_per_second=2000", "rows_per_second=200")
        + _edit("self.epoch = epoch", "print('epoch', epoch, flush=True)"),
        "count: cancelled at epoch …; go on with restore='latest' …KeyboardInterrupt",
        'Start it again with `restore="latest"`; a shell shows the exit code 130.',
        runs=True,
        code=INTERRUPTED,
        interrupt="epoch",
    ),
)

MISTAKES = {
    "The program is wrong": PROGRAM,
    "A word is misspelt": SPELLING,
    "Rows, types and state": ROWS,
    "Code of yours raises, or does not come back": CALLBACKS,
    "Files, directories and the machine": PLACES,
    "The end of a job": ENDS,
}

ALL = tuple(mistake for group in MISTAKES.values() for mistake in group)
