"""An online feature store: what a model wants to know of a customer, kept up to date and asked.

The job keeps the features in its state. A model server asks for single customers; an analyst asks
all of them with SQL. Both read the same committed epoch, and no database is written.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "purchases.json"
PURCHASE = "customer string, at timestamp, category string, cents long"
FEATURES = "customer string, purchases long, spent long, mean double"
SUMMARY = """
    select c.favourite, count(*) as customers, round(avg(s.spent) / 100, 2) as spent
    from features.favourite c join features.spent s using (customer)
    group by c.favourite order by c.favourite
"""


class Features(ms.KeyedProcess):
    purchases = ms.ReducingState("long", lambda a, b: a + b)
    spent = ms.ReducingState("long", lambda a, b: a + b)
    last_at = ms.ReducingState("timestamp", max)
    by_category = ms.MapState("string", "long")
    favourite = ms.ValueState("string")

    def process(self, row, ctx):
        self.purchases.add(1)
        self.spent.add(row.cents)
        self.last_at.add(row.at)
        self.by_category[row.category] = self.by_category.get(row.category, 0) + 1
        ranked = sorted(self.by_category.items(), key=lambda entry: (-entry[1], entry[0]))
        self.favourite.update(ranked[0][0])
        spent, purchases = self.spent.get(), self.purchases.get()
        yield ctx.key, purchases, spent, spent / purchases


def build(env, purchases=DATA, out=None):
    (
        env.source(ms.connectors.Files(purchases, schema=PURCHASE), uid="purchases")
        .key_by("customer")
        .process(Features(), FEATURES, uid="features")
        .sink(out or ms.connectors.Memory(), uid="out")
    )


def features_of(state, customer):
    """The features of a customer, all of one epoch; None for one who is not known."""
    names = ["features.purchases", "features.spent", "features.favourite"]
    answers = state.query_states(names, key=customer)
    found = {name.partition(".")[2]: answer.value for name, answer in answers.items()}
    return None if found["purchases"] is None else found


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        build(env)
        env.start("features").wait(progress=False)
        state = ms.connect(folder)
        print(features_of(state, "c005"), features_of(state, "nobody"))
        for row in state.sql(SUMMARY).to_pylist():
            print(row)
