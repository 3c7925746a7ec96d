"""The processors of Spark's own tests of ``transformWithState``, written once for both variants.

What they do is what Spark's do, state by state and assertion by assertion; how a row is read and
yielded is in ``slices.InRows`` and ``slices.InPandas``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

R1 = [("0", 123), ("0", 46), ("1", 146), ("1", 346)]
R2 = [("0", 123), ("0", 223), ("0", 323), ("1", 246), ("1", 6)]
R3 = [("0", 123), ("1", 6)]
INPUT = "id string, temperature int"


class Base(StatefulProcessor):
    """Typed loosely: which variant it is, is mixed in."""

    values: Any
    out: Any
    initial: Any

    def init(self, handle: Any) -> None:
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        raise NotImplementedError


class Simple(Base):
    """Counts violations; the state it deletes cannot be used."""

    output = "id string, countAsString string"
    ttl: int | None = None

    def init(self, handle: Any) -> None:
        self.num_violations = handle.getValueState("numViolations", "value int", self.ttl)
        self.temp = handle.getValueState("tempState", "value int", self.ttl)
        handle.deleteIfExists("tempState")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        new = 0
        with pytest.raises(PySparkRuntimeError, match="Error checking value state exists"):
            self.temp.exists()
        existing = self.num_violations.get()[0] if self.num_violations.exists() else 0
        temperatures = self.values(rows, "temperature")
        new = sum(value > 100 for value in temperatures)
        self.num_violations.update((existing + new,))
        yield self.out(id=key[0], countAsString=str(len(temperatures)))


class SimpleTtl(Simple):
    ttl = 30000


class ProcTime(Base):
    """Key 0 registers a timer at each call."""

    output = "id string, countAsString string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("countState", "value string")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.count.clear()
        listed = list(self.handle.listTimers())
        assert listed == list(self.handle.listTimers())
        assert len(listed) in (0, 1, 2)
        assert expiredTimerInfo.getExpiryTimeInMs() in listed
        assert expiredTimerInfo.getExpiryTimeInMs() <= timerValues.getCurrentProcessingTimeInMs()
        yield self.out(id=key[0], countAsString="-1")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = 0 if not self.count.exists() else int(self.count.get()[0])
        if key[0] == "0":
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        count += len(self.values(rows, "temperature"))
        self.count.update((str(count),))
        yield self.out(id=key[0], countAsString=str(count))


class EventTime(Base):
    """The newest event time; a timer at the watermark of the call."""

    output = "id string, timestamp string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.max = handle.getValueState("maxEventTimeState", "value long")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.max.clear()
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield self.out(id=f"{key[0]}-expired", timestamp=str(at))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        newest = max(int(at.timestamp()) for at in self.values(rows, "eventTime"))
        self.max.update((newest,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs())
        yield self.out(id=key[0], timestamp=str(newest))


class MinEventTime(Base):
    output = "id string, timestamp string"

    def init(self, handle: Any) -> None:
        self.min = handle.getValueState("minEventTimeState", "value int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        oldest = min(int(at.timestamp()) for at in self.values(rows, "eventTime"))
        if self.min.exists():
            oldest = min(oldest, self.min.get()[0])
        self.min.update((oldest,))
        yield self.out(id=key[0], timestamp=str(oldest))


class SumWithInitial(Base):
    """A sum, which may begin with an initial state."""

    output = "id string, value string"
    has_timer = False

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value_state", "value int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        existing = self.value.get()[0] if self.value.exists() else 0
        existing += sum(self.values(rows, "temperature"))
        self.value.update((existing,))
        yield self.out(id=key[0], value=str(existing))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        for value in self.initial(initialState, "initVal"):
            self.value.update((value,))
        if self.has_timer:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() - 1)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield self.out(id=key[0], value=f"{key[0]}-expired")


class SumWithTimer(SumWithInitial):
    has_timer = True


class NonContiguous(SumWithInitial):
    output = "id1 string, id2 string, value string"

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        existing = self.value.get()[0] if self.value.exists() else 0
        existing += sum(self.values(rows, "temperature"))
        self.value.update((existing,))
        yield self.out(id1=key[0], id2=key[1], value=str(existing))


class Maps(Base):
    """Every method of a map state, and counts rows with one."""

    output = "id string, countAsString string"
    ttl: int | None = None

    def init(self, handle: Any) -> None:
        key_schema, value_schema = "name string", "count int"
        self.map = handle.getMapState("mapState", key_schema, value_schema, self.ttl)
        self.list = handle.getListState("listState", key_schema)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = len(self.values(rows, "temperature"))
        key1, key2 = ("key1",), ("key2",)
        for i in range(count):
            assert not self.map.exists() or self.map.containsKey(key2)
            assert not self.map.containsKey(key1)
            self.map.updateValue(key1, (i,))
            self.map.updateValue(key2, (i + 1,))
            assert self.map.exists()
            assert self.map.containsKey(key1)
            assert self.map.getValue(key1) == (i,)
            assert self.map.getValue(key2).count != (i + 1)  # a method of tuples, as in Spark
            assert self.map.getValue(key2)["count"] == i + 1
            pairs = list(self.map.iterator())
            assert sorted(pairs) == [(key1, (i,)), (key2, (i + 1,))]
            assert sorted(self.map.keys()) == [key1, key2]
            assert sorted(self.map.values()) == [(i,), (i + 1,)]
            self.map.removeKey(key1)
            assert not self.map.containsKey(key1)
            assert self.map.getValue(key1) is None
            self.map.removeKey(key1)
        assert list(self.map.keys()) == [key2]
        yield self.out(id=key[0], countAsString=str(self.map.getValue(key2)[0]))


class MapsTtl(Maps):
    ttl = 30000


class Lists(Base):
    """Every method of a list state, with interleaved iterators."""

    output = "id string, countAsString string"
    ttl: int | None = None

    def init(self, handle: Any) -> None:
        schema = StructType([StructField("temperature", IntegerType(), True)])
        self.one = handle.getListState("listState1", schema, self.ttl)
        self.two = handle.getListState("listState2", schema, self.ttl)
        times = StructType([StructField("time", TimestampType(), True)])
        self.times = handle.getListState("listStateTimestamp", times, self.ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = len(self.values(rows, "temperature"))
        assert not self.one.exists()
        assert list(self.one.get()) == []
        self.one.put([(120,), (20,)])
        self.one.appendValue((111,))
        self.one.appendList([(120,), (20,)])
        self.two.put([(120,), (20,)])
        self.two.appendValue((222,))
        self.two.appendList([(120,), (20,)])
        first, second, third = self.one.get(), self.two.get(), self.one.get()
        assert next(first) == (120,)
        assert next(second) == (120,)
        assert [next(first), next(first)] == [(20,), (111,)]
        assert [next(third), next(third), next(third)] == [(120,), (20,), (111,)]
        assert [*second] == [(20,), (222,), (120,), (20,)]
        self.one.appendValue((7,))
        assert [*first] == [(120,), (20,)], "an open iterator sees no more"
        at = datetime(2026, 1, 1, 10, 30, 15, 999)
        self.times.put([(at,)])
        self.times.appendValue((None,))
        assert list(self.times.get()) == [(at,), (None,)]
        self.one.clear()
        assert not self.one.exists()
        yield self.out(id=key[0], countAsString=str(count))


class ListsTtl(Lists):
    ttl = 30000


class LargeList(Base):
    """A hundred elements, then ninety more; prints both."""

    output = "id string, prevList string, updatedList string"

    def init(self, handle: Any) -> None:
        self.list = handle.getListState("listState", "value int, valueNull int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        before = [each[0] for each in self.list.get()]
        if not before:
            elements = [(i, None) for i in range(100)]
            self.list.put(elements) if key[0] == "0" else self.list.appendList(elements)
        else:
            self.list.appendList([(i, None) for i in range(100, 190)])
        after = [each[0] for each in self.list.get()]
        shown = [",".join(map(str, each)) for each in (before, after)]
        yield self.out(id=key[0], prevList=shown[0], updatedList=shown[1])


class NoValue(Base):
    output = "id string, countAsString string"

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value_state", "value int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        assert self.value.get() is None
        assert not self.value.exists()
        self.value.clear()
        assert self.value.get() is None
        self.value.update((None,))
        assert self.value.exists()
        assert self.value.get() == (None,)
        self.value.clear()
        yield self.out(id=key[0], countAsString=str(self.value.get() or 0))


class Expiring(Base):
    """Counts rows in a value, a list and a map with ten seconds to live beside a plain value."""

    output = "id string, count int"

    def init(self, handle: Any) -> None:
        ttl = 10000
        self.ttl_count = handle.getValueState("ttl-state", "value int", ttl)
        self.count = handle.getValueState("state", "value int")
        self.ttl_list = handle.getListState("ttl-list-state", "value int", ttl)
        self.ttl_map = handle.getMapState("ttl-map-state", "id string", "value int", ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        new = len(self.values(rows, "temperature"))
        counts = {
            "count": self.count.get()[0] if self.count.exists() else 0,
            "ttl-count": self.ttl_count.get()[0] if self.ttl_count.exists() else 0,
            "ttl-list": sum(each[0] for each in self.ttl_list.get()),
            "ttl-map": self.ttl_map.getValue(key)[0] if self.ttl_map.exists() else 0,
        }
        counts = {name: count + new for name, count in counts.items()}
        self.count.update((counts["count"],))
        if key[0] != "0" or counts["ttl-count"] != 2:
            self.ttl_count.update((counts["ttl-count"],))
            self.ttl_list.put([(counts["ttl-list"],)] * 2)
            self.ttl_map.updateValue(key, (counts["ttl-map"],))
        for name, count in counts.items():
            yield self.out(id=f"{name}-{key[0]}", count=count)


class Address(NamedTuple):
    road: str
    number: int


COMPOSITE = StructType(
    [
        StructField("id", StringType()),
        StructField(
            "addresses",
            ArrayType(
                StructType(
                    [StructField("road", StringType()), StructField("number", IntegerType())]
                )
            ),
        ),
        StructField("scores", MapType(StringType(), MapType(StringType(), IntegerType()))),
    ]
)


class Composite(Base):
    """Arrays of structs, given as dicts and named tuples, come back as rows; maps of maps."""

    output = "id string, shown string"

    def init(self, handle: Any) -> None:
        self.obj = handle.getValueState("objState", COMPOSITE)
        self.list = handle.getListState("listState", COMPOSITE)
        self.map = handle.getMapState("mapState", "name string", COMPOSITE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        total = sum(self.values(rows, "temperature"))
        if not self.obj.exists():
            value = (key[0], [{"road": "a", "number": 1}, Address("b", 2)], {"x": {"y": 1}})
            self.obj.update(value)
            self.list.put([value])
            self.map.updateValue(("k",), value)
        else:
            found = self.obj.get()
            name, addresses, scores = found
            assert [each.road for each in addresses][:2] == ["a", "b"]
            addresses.append({"road": key[0], "number": total})
            is_known = key[0] in scores
            scores[key[0]] = {"total": total}
            assert len(self.obj.get()[1]) == len(addresses) - 1, "what is read is a copy"
            self.obj.update((name, addresses, scores))
            self.list.appendValue((name, addresses, scores))
            # A text alone, as Spark's own processor writes it.
            assert self.map.containsKey(key[0]) == is_known
            self.map.updateValue(key[0], (name, addresses, scores))
        _, addresses, scores = self.obj.get()
        same = self.map.getValue(key[0]) or self.map.getValue(("k",))
        assert tuple(same) == self.obj.get()
        assert same.addresses == addresses
        assert list(self.list.get())[-1] == self.obj.get()
        shown = [(each.road, each.number) for each in addresses]
        yield self.out(id=key[0], shown=f"{shown} {scores}")


class CompositeOutput(Base):
    """Nested results."""

    output = (
        "id string, counts array<struct<n:int,name:string>>, by map<string,struct<n:int>>, "
        "total int"
    )

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "value int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        before = self.count.get()[0] if self.count.exists() else 0
        total = before + len(self.values(rows, "temperature"))
        self.count.update((total,))
        counts = [{"n": total, "name": key[0]}, {"n": None, "name": "x"}]
        yield self.out(id=key[0], counts=counts, by={"k": {"n": total}}, total=total)


class Large(Base):
    """Half a megabyte in each kind of state."""

    output = "id string, ok boolean"

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("v", "text string")
        self.list = handle.getListState("l", "text string")
        self.map = handle.getMapState("m", "k string", "text string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        text = "x" * (512 * 1024)
        self.value.update((text,))
        self.list.put([(text,)] * 3)
        self.map.updateValue(("k",), (text,))
        is_same = self.value.get() == (text,) and list(self.list.get()) == [(text,)] * 3
        yield self.out(id=key[0], ok=is_same and self.map.getValue(("k",)) == (text,))


class Evolving(Base):
    """One state whose type changes from run to run; ``shape`` is which."""

    output = "id string, value string"
    shapes: ClassVar[dict[str, str]] = {
        "basic": "id int, name string",
        "added": "id int, name string, active boolean, score double",
        "removed": "id int, name string",
        "reordered": "name string, id int, score double",
        "upcast": "id long, name string",
        "not_nullable": "id int NOT NULL, name string NOT NULL",
    }
    shape = "basic"

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("valueState", self.shapes[self.shape])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        found = self.state.get()
        new: dict[str, Any] = {
            "basic": (0, f"name-{key[0]}{key[0]}"),
            "added": (0, f"name-{key[0]}{key[0]}", True, 99.9),
            "removed": (0, f"name-{key[0]}{key[0]}"),
            "reordered": (f"name-{key[0]}{key[0]}", 0, None),
            "upcast": (1, f"name-{key[0]}{key[0]}"),
            "not_nullable": (1, "x"),
        }
        self.state.update(new[self.shape])
        yield self.out(id=key[0], value=repr(found))


LONG = StructType([StructField("n", LongType())])
