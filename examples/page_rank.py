"""Rank that flows along links until what is left of it is too small to matter.

Each page adds up the rank it has received and passes most of it on to the pages it links to. What
is less than ``SMALLEST`` is kept until more has come, so the loop ends.
"""

import mainstay as ms

PASSED_ON = 0.85
SMALLEST = 1e-4
SHARE = "page string, links array<string>, share double"
"""To ``page``: the pages it links to, or a ``share`` of somebody's rank."""


class Rank(ms.KeyedProcess):
    links = ms.ListState("string")
    rank = ms.ReducingState("double", lambda a, b: a + b)
    kept = ms.ValueState("double")

    def process(self, row, ctx):
        if row.links is not None:
            self.links.update(row.links)
        share = (1 - PASSED_ON) if row.share is None else row.share
        self.rank.add(share)
        kept, links = (self.kept.get() or 0.0) + share, self.links.get()
        if links and kept >= SMALLEST:
            for page in links:
                yield page, None, kept * PASSED_ON / len(links)
            kept = 0.0
        self.kept.update(kept)


def build(env, pages, out):
    def body(head):
        shares = head.key_by("page").process(Rank(), SHARE, uid="ranks")
        return shares, shares.filter(lambda row: False)  # the result is the state

    (
        env.source(pages, uid="pages")
        .map(lambda row: (row.page, row.links, None), SHARE)
        .iterate(body, uid="flow")
        .sink(out, uid="out")
    )


PAGES = [("home", ["news", "shop"]), ("news", ["home"]), ("shop", ["home", "news"])]

if __name__ == "__main__":
    from mainstay.testing import run

    pages = ms.connectors.Rows("page string, links array<string>", PAGES)
    result = run(lambda env: build(env, pages, ms.connectors.Memory()), crashes=3, seed=5)
    for page, rank in sorted(result.state("ranks", "rank").items(), key=lambda item: -item[1]):
        print(f"{page:6} {rank:.3f}")
