"""What each visitor looks at: from JSON lines to Parquet, with a map and a list for each visitor.

Reads ``clicks/*.json``, keeps how often each page was seen (``MapState``) and the last three pages
(``ListState``), and writes a row for each click. Everything lies in a temporary folder.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

CLICK = "visitor string, page string"
SEEN = "visitor string, page string, times long, trail array<string>"
TRAIL = 3


class Browsing(ms.KeyedProcess):
    pages = ms.MapState("string", "long")
    trail = ms.ListState("string")

    def process(self, row, ctx):
        times = self.pages.get(row.page, 0) + 1
        self.pages.put(row.page, times)
        trail = [*self.trail.get(), row.page][-TRAIL:]
        self.trail.update(trail)
        yield {"visitor": ctx.key, "page": row.page, "times": times, "trail": trail}


def build(env, clicks, out):
    (
        env.source(clicks, uid="clicks")
        .key_by("visitor")
        .process(Browsing(), SEEN, uid="browsing")
        .sink(out, uid="out")
    )


def write_clicks(folder):
    """Two files with the clicks of ten visitors."""
    folder.mkdir()
    pages = ["home", "shop", "cart", "home", "help"]
    for number in range(2):
        lines = [
            json.dumps({"visitor": f"v{n % 10}", "page": pages[(n + n // 10) % len(pages)]})
            for n in range(number * 50, number * 50 + 50)
        ]
        (folder / f"clicks-{number}.json").write_text("\n".join(lines))


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_clicks(folder / "clicks")
        env = ms.Environment(
            spark="embedded", snapshots=ms.Snapshots(folder / "snapshots", every="1s")
        )
        clicks = ms.connectors.Files(folder / "clicks" / "*.json", schema=CLICK)
        build(env, clicks, ms.connectors.ParquetSink(folder / "seen"))
        print(env.start("browsing").wait(progress=False))
        seen = ms.connectors.read_committed(folder / "seen").to_pylist()
        print(
            len(seen), "rows; v3 has seen", {row["page"] for row in seen if row["visitor"] == "v3"}
        )
        print("home at most", max(row["times"] for row in seen if row["page"] == "home"), "times")
