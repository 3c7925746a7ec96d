"""Changes of a table, as a connector for change data capture sends them, into Delta Lake.

A connector may send changes again after it was restarted. The state of a row knows the newest
change that was taken (``lsn``), so each goes on once. The Delta table gets the history of every
row: which version it is, what it was before, and whether it was deleted.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "changes.json"
CHANGE = "op string, lsn long, id long, name string, city string"
HISTORY = (
    "id long, version long, lsn long, is_deleted boolean, "
    "name string, city string, city_before string"
)


class History(ms.KeyedProcess):
    current = ms.ValueState("struct<version:long,lsn:long,name:string,city:string>")

    def process(self, row, ctx):
        now = self.current.get()
        if now is not None and row.lsn <= now.lsn:
            return  # it was sent again
        version = now.version + 1 if now else 1
        # A row that is deleted keeps its place, or a change that comes again would revive it.
        self.current.update((version, row.lsn, row.name, row.city))
        before = now.city if now else None
        yield ctx.key, version, row.lsn, row.op == "d", row.name, row.city, before


def build(env, out, changes=DATA):
    (
        env.source(ms.connectors.Files(changes, schema=CHANGE), uid="changes")
        .key_by("id")
        .process(History(), HISTORY, uid="history")
        .sink(out, uid="out")
    )


if __name__ == "__main__":
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    with TemporaryDirectory() as folder:
        env = ms.Environment(
            spark="embedded", snapshots=ms.Snapshots(f"{folder}/snapshots", every="1s")
        )
        build(env, ms.connectors.DeltaSink(f"{folder}/customers"))
        env.start("customers").wait(progress=False)
        table = QueryBuilder().register("customers", DeltaTable(f"{folder}/customers"))
        rows = pa.table(table.execute("select * from customers")).to_pylist()
        newest = {row["id"]: row for row in sorted(rows, key=lambda row: row["version"])}
        alive = [row for row in newest.values() if not row["is_deleted"]]
        print(f"{len(rows)} changes of {len(newest)} customers, {len(alive)} of them alive")
