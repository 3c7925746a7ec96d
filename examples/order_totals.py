"""Running totals per customer, from rows in memory: the first job of the README."""

import mainstay as ms


class RunningTotal(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.total.add(row.amount)
        yield ctx.key, self.total.get()


def build(env, orders, out):
    (
        env.source(orders, uid="orders")
        .key_by("customer")
        .process(RunningTotal(), "customer string, total long", uid="totals")
        .sink(out, uid="out")
    )


if __name__ == "__main__":
    orders = ms.connectors.Rows(
        "customer string, amount long", [("alice", 5), ("bob", 3), ("alice", 2)]
    )
    out = ms.connectors.Memory()
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots("./snapshots", every="1s"),
        restore="latest-or-new",
    )
    build(env, orders, out)
    job = env.start("order-totals")
    print(job.wait(), sorted(out.rows()))
    for line in job.restored:
        print(line)
