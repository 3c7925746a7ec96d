"""Orders with the profile of their customer: two streams that share the state of a key.

Which of the two comes first is not known. An order that comes before the profile waits in a
``ListState``; when the profile changes, later orders have the new one.
"""

import mainstay as ms

ORDER = "customer long, item string"
PROFILE = "id long, name string, tier string"
ENRICHED = "customer long, item string, name string, tier string"


class Enrich(ms.CoKeyedProcess):
    profile = ms.ValueState("struct<name:string,tier:string>")
    waiting = ms.ListState("string")

    def process_left(self, row, ctx):
        profile = self.profile.get()
        if profile is None:
            self.waiting.add(row.item)
        else:
            yield ctx.key, row.item, profile.name, profile.tier

    def process_right(self, row, ctx):
        self.profile.update((row.name, row.tier))
        for item in self.waiting.get():
            yield ctx.key, item, row.name, row.tier
        self.waiting.clear()


def build(env, orders, profiles, out):
    orders = env.source(orders, uid="orders").key_by("customer")
    profiles = env.source(profiles, uid="profiles").key_by("id")
    orders.connect(profiles).process(Enrich(), ENRICHED, uid="enrich").sink(out, uid="out")


ORDERS = [(1, "lamp"), (2, "desk"), (1, "chair"), (3, "rug")]
PROFILES = [(1, "Alice", "gold"), (2, "Bob", "basic")]

if __name__ == "__main__":
    from mainstay.testing import rows, run

    sources = rows(ORDER, ORDERS), rows(PROFILE, PROFILES)
    result = run(lambda env: build(env, *sources, ms.connectors.Memory()), seed=4, crashes=2)
    for row in sorted(result.output("out")):
        print(*row)
    print("waiting for a profile:", result.state("enrich", "waiting"))
