"""A retry loop: what fails is tried again, but not for ever.

Payments that are declined go round again; after three attempts they are given up and reported.
"""

import mainstay as ms

PAYMENT = "id long, amount long, attempt int"
MOST_ATTEMPTS = 3


def is_accepted(payment):
    """In the place of a service that is sometimes busy: odd ones need one attempt more."""
    return payment.amount < 100 and payment.attempt >= payment.id % 2


class Try(ms.Process):
    def process(self, row, ctx):
        status = "accepted" if is_accepted(row) else "declined"
        yield row.id, row.amount, row.attempt, status


def build(env, payments, out):
    def body(head):
        tried = head.process(Try(), PAYMENT + ", status string", uid="try")
        declined = tried.filter(lambda row: row.status == "declined")
        again = declined.filter(lambda row: row.attempt + 1 < MOST_ATTEMPTS)
        given_up = declined.filter(lambda row: row.attempt + 1 >= MOST_ATTEMPTS)
        accepted = tried.filter(lambda row: row.status == "accepted")
        back = again.map(lambda row: (row.id, row.amount, row.attempt), PAYMENT)
        return back, accepted.union(given_up)

    (
        env.source(payments, uid="payments")
        .map(lambda row: (row.id, row.amount, 0), PAYMENT)
        .iterate(body, uid="retry", round_column="attempt")
        .sink(out, uid="out")
    )


if __name__ == "__main__":
    from mainstay.testing import run

    payments = ms.connectors.Rows("id long, amount long", [(1, 20), (2, 30), (3, 500)])
    result = run(lambda env: build(env, payments, ms.connectors.Memory()), crashes=2, seed=3)
    for id, amount, attempt, status in sorted(result.output("out")):
        print(f"payment {id} of {amount}: {status} at attempt {attempt + 1}")
