"""What compiled code does not have is refused when a job is planned, with the line, the construct
and the remedy; and nothing makes the compiler itself fail."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from random import Random

import pytest

from mainstay.errors import GraphError
from tests.compiled.driving import Driven
from tests.compiled.modules import class_of, module_of
from tests.compiled.written import drawn

WITHOUT = "Leave out compiled=True"
BEFORE = "Compute it before, on whole batches: with_columns(...)"
TAKEN = "k long, x long, y double, name string"

STATEMENTS = {
    "try:\n    pass\nexcept ValueError:\n    pass": ("try", "Check for what may go wrong"),
    "with open('a') as f:\n    pass": ("with", WITHOUT),
    "def f():\n    pass": ("a function within a function", "at the top of the module"),
    "class A:\n    pass": ("a class within a function", "at the top of the module"),
    "import os": ("an import", "Import it at the top"),
    "from os import path": ("an import", "Import it at the top"),
    "global WHOLE\nWHOLE = 1": ("global", "Keep what lasts in a state"),
    "x = 1\ndel x": ("del", "Leave it out"),
    "match row.x:\n    case 1:\n        pass": ("match", WITHOUT),
    "self.total = 1": ("'self.total' is assigned", "Keep what lasts in a state"),
    "self.limit += 1": ("'self.limit' is assigned", "Keep what lasts in a state"),
    "row = 5": ("the argument 'row' is assigned", "Use another name"),
    "for a, b in ((1, 2),):\n    pass": ("the target of a loop", "Unpack it in the loop"),
    "for a in row.name:\n    pass": ("a loop over a value of a column", "Loop over range(...)"),
    "for i in range(1.5):\n    pass": ("range() is given a float", "Give it whole numbers"),
    "a, b = (1, 2, 3)": ("3 values are unpacked into 2 names", "Write a name for each value"),
    "yield": ("a yield without a row", "Write return to emit nothing"),
    "yield from row.name": ("yield from row.name", "a tuple or a list that is written out"),
    "yield from mixed(row.x)": ("yield from mixed(row.x)", "a method of your own that yields"),
    "yield from self.n.get()": ("yield from self.n.get()", "a method of your own that yields"),
    "yield from forever(row.x)": ("forever() calls itself", "Write it as a loop"),
    "x = yield from ((1,),)": ("yield from", BEFORE),
    "yield (1, 2)": ("a row has 2 values", "Give a value for each column"),
    "yield {'z': 1}": ("a row has the columns z", "Give each column of the schema by its name"),
    "yield (1.5,)": ("the column 'a' is declared as long and is given a float", "Convert it"),
    "self.n.update('a')": ("declared as long and is given a text", "Convert it"),
    "self.n.put(5)": ("put() of the state 'n'", "Compiled code has get, update, clear"),
    "ctx.timers.event_time(5)": ("ctx.timers has no compiled form", "Declare the timer"),
    "self.close.set(5)": ("declared as timestamp and is given a whole number", "Convert it"),
    "self.close.update(None)": ("update() of the state 'close'", "has get, set, clear"),
}
EXPRESSIONS = {
    "[a for a in (1, 2)]": ("a comprehension", BEFORE),
    "{1: a for a in (1, 2)}": ("a comprehension", BEFORE),
    "sum(a for a in (1, 2))": ("a comprehension", BEFORE),
    "[1, 2]": ("a list", BEFORE),
    "{'a': 1}": ("a dict", BEFORE),
    "{1}": ("a set", BEFORE),
    "lambda: 1": ("a lambda", BEFORE),
    "(*(1, 2), 3)": ("a star", BEFORE),
    "max(*(1, 2))": ("a star", BEFORE),
    "(yield (1,))": ("a yield that gives a value back", BEFORE),
    "f'{row.x}'": ("a text that is put together", BEFORE),
    "row.name + 'a'": ("a value of a column or None + a text", BEFORE),
    "row.name < 'b'": ("a value of a column or None < a text", BEFORE),
    "row.name.lower()": ("lower() of a value of a column", BEFORE),
    "row.x ** row.x": ("has no compiled form", "A whole number is raised to a literal"),
    "99999999999999999999": ("does not fit 64 bits", WITHOUT),
    "row.x is 5": ("'is' compares which object", "Write == instead"),
    "row.foo": ("the row has no column 'foo'", "Correct the name"),
    "(1, 2)[row.x]": ("is no column and no field", "as a literal"),
    "math.gamma(1.0)": ("math.gamma() of a float", "Compiled code has abs"),
    "round(row.y, 2)": ("round() of a float", "Compiled code has abs"),
    "foo": ("nothing is called 'foo'", "Assign it, or import it"),
    "self.foo": ("self.foo is not there", "Set it in __init__"),
    "self.n": ("'self.n' is given another name", "Use it by its own name"),
    "self.n + 1": ("the state 'n' is used as a value", "Write self.n.get()"),
    "ctx.now(1)": ("ctx.now() has no compiled form", WITHOUT),
    "1 if row.x else 'a'": ("is a whole number or a text", "Give both the same type"),
    "timedelta(days=row.x)": ("is no literal", "Write its arguments as numbers"),
    "generates(1)": ("generates() yields", "Emit its rows with yield from"),
    "itself(1)": ("itself() calls itself", "Write it as a loop"),
    "mixed(row.x)": ("mixed() returns a whole number", "Return one type"),
    "max((1, 2))": ("least or greatest of a collection", "Name the values"),
}
HELPERS = """
def generates(a):
    yield a


def forever(a):
    yield (a,)
    yield from forever(a)


def itself(a):
    return itself(a)


def mixed(a):
    if a:
        return 1
    return "a"
"""
TIMER = """
close = ms.Timer('processing_time')

def on_timer(self, at, ctx):
    return (ctx.key,)
"""
CASES = STATEMENTS | {f"x = {text}": told for text, told in EXPRESSIONS.items()}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("text", CASES)
def test_a_refusal_names_the_line_the_construct_and_the_remedy(text: str, tmp_path: Path) -> None:
    construct, remedy = CASES[text]
    body = f"yield (0,)\n{text}"
    members = f"limit = 5\nn = ms.ValueState('long')\n{TIMER}"
    source = class_of(body, before=HELPERS, members=members)
    with pytest.raises(GraphError) as refused:
        Driven(module_of(source, tmp_path).F(), TAKEN, ("k",), "a long")
    message = str(refused.value)
    first, place, last = message.split("\n")
    assert first.startswith("operator 'f': F.process()")
    assert construct in first
    assert remedy in last
    number, line = place.split(":", 1)[1].split(": ", 1)
    assert source.splitlines()[int(number) - 1].strip() == line
    assert line in text or line in HELPERS


# ---------------------------------------------------------------- mutated functions

_ODD = (
    "None", "...", "1j", "row", "self", "ctx", "self.s0", "math", "SOME", "NAMES", "foo", "[]",
    "{}", "()", "(1,)", "row[0:1]", "row['c1'][0]", "ctx.key", "ctx.watermark", "F", "print",
    "range(3)", "max", "timedelta", "f'{1}'", "lambda: 0", "(yield)", "10 ** 400",
    "1 << 70", "'\\ud800'", "b''", "__name__", "NotImplemented", "int", "type(row)", "WHOLE()",
    "[a for a in row]", "not ()", "-True", "~1.5", "1 @ 2", "'a' * 3", "{**{}}", "(*row,)", "Mean",
    "Mean()", "Mean().start", "date.min", "datetime.now()", "timezone.utc", "self.process", "h0",
    "self.limit.real", "NAME.join", "max()", "min(1)", "abs(*())", "int(x=1)", "math.pi()",
)  # fmt: skip
MUTATED = 120


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("first", range(0, MUTATED, 60))
def test_a_mutated_function_is_planned_or_refused(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 60):
        plan_mutated(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_many_mutated_functions_are_planned_or_refused(tmp_path: Path) -> None:
    for seed in range(MUTATED, 20_000):
        plan_mutated(seed, tmp_path)


def plan_mutated(seed: int, folder: Path) -> None:
    given = drawn(seed)
    source = mutated(given.source, Random(f"mutated-{seed}"))
    try:
        compile(source, "a mutated function", "exec")
        function = module_of(source, folder).F()
    except (SyntaxError, NameError, TypeError):
        # It is no function of Python's.
        return
    try:
        Driven(function, given.taken, given.key, given.given)
    except GraphError:
        return
    except BaseException as error:
        raise AssertionError(f"seed {seed}\n{source}") from error


def mutated(source: str, random: Random) -> str:
    """A function with a few of its expressions replaced by odd ones, or by one another."""
    tree = ast.parse(source)
    author = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "F")
    process = author.body[-1]
    for _ in range(random.randint(1, 3)):
        found = [node for node in ast.walk(process) if isinstance(node, ast.expr)]
        places = [
            (parent, name, number)
            for parent in ast.walk(process)
            if not isinstance(parent, ast.JoinedStr | ast.FormattedValue)
            for name, value in ast.iter_fields(parent)
            for number, each in enumerate(value if isinstance(value, list) else [value])
            if isinstance(each, ast.expr) and isinstance(getattr(each, "ctx", ast.Load()), ast.Load)
        ]
        parent, name, number = random.choice(places)
        odd = ast.parse(random.choice(_ODD), mode="eval").body
        put = odd if random.random() < 0.7 else copy.deepcopy(random.choice(found))
        value = getattr(parent, name)
        if isinstance(value, list):
            value[number] = put
        else:
            setattr(parent, name, put)
    return ast.unparse(ast.fix_missing_locations(tree))
