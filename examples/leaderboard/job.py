"""The three best players of each league, as points come in.

Points are added up by player first, and then ranked by league, so that the work of a busy league is
spread over many subtasks.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "scores.csv"
SCORE = "league string, player string, points long"
BOARD = "league string, board array<struct<player:string,points:long>>"
PLACES = 3


class Board(ms.KeyedProcess):
    points = ms.MapState("string", "long")
    shown = ms.ValueState("array<struct<player:string,points:long>>")

    def process(self, row, ctx):
        # A row tells a player's sum so far. A sum that comes late must not take it back.
        self.points[row.player] = max(row.points, self.points.get(row.player, 0))
        ranked = sorted(self.points.items(), key=lambda entry: (-entry[1], entry[0]))[:PLACES]
        before = [tuple(place) for place in self.shown.get() or []]
        if ranked != before:
            self.shown.update(ranked)
            yield ctx.key, ranked


def build(env, scores=DATA, out=None):
    (
        env.source(ms.connectors.Files(scores, schema=SCORE), uid="scores")
        .key_by("league", "player")
        .aggregate(points=ms.sum("points"), uid="sums")
        .key_by("league")
        .process(Board(), BOARD, uid="board")
        .sink(out or ms.connectors.Memory(), uid="out")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        build(env)
        env.start("leaderboard").wait(progress=False)
        state = ms.connect(folder)
        for league in ("gold", "silver", "bronze"):
            places = state.query("board.shown", key=league).value
            line = ", ".join(f"{place['player']} {place['points']}" for place in places)
            print(f"{league}: {line}")
