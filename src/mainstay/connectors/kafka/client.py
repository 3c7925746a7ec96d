"""Kafka clients: their settings, what an error of one means, and what a broker can be asked.

An error is one of three things. The brokers are out of reach, or not themselves yet: that heals,
and the job waits. They refuse (no permission, a record too large): somebody has to change
something, and the error says what. Or a newer producer has taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from mainstay.errors import GraphError, MainstayError
from mainstay.masking import masked, masked_settings, secrets_of
from mainstay.runtime.connector import UnavailableError

ANSWER_S = 10.0
"""How long a broker may take to answer one question."""

UNKNOWN_S = 10.0
"""How long a topic has to be unknown before there is none."""
ASK_AGAIN_S = 0.25
UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})

REMEDIES = {
    "TOPIC_AUTHORIZATION_FAILED": "Grant this client the right to the topic.",
    "GROUP_AUTHORIZATION_FAILED": "Grant this client the right to the consumer group.",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "Grant this client Write and Describe on transactional ids that begin with 'mainstay_', "
        "and Read on groups that do."
    ),
    "CLUSTER_AUTHORIZATION_FAILED": "Grant this client the right to the cluster.",
    "SASL_AUTHENTICATION_FAILED": "Correct the credentials in config=.",
    "_AUTHENTICATION": "Correct the credentials in config=.",
    "UNSUPPORTED_SASL_MECHANISM": "Correct sasl.mechanisms in config=.",
    "MSG_SIZE_TOO_LARGE": (
        "Raise max.message.bytes of the topic and message.max.bytes in config=, or write smaller "
        "rows."
    ),
    "RECORD_LIST_TOO_LARGE": "Raise segment.bytes of the topic, or write smaller rows.",
    "TOPIC_EXCEPTION": "Correct the name of the topic.",
    "INVALID_RECORD": "The topic does not take such records: look at its settings.",
    "POLICY_VIOLATION": "A policy of the cluster forbids it: look at its settings.",
    "UNSUPPORTED_VERSION": "The broker is too old: it has to be at least Kafka 2.5.",
    "OFFSET_METADATA_TOO_LARGE": "Raise offset.metadata.max.bytes of the brokers.",
    "_INVALID_ARG": "Correct the settings in config=.",
    "INVALID_TRANSACTION_TIMEOUT": "Lower transaction.timeout.ms in config=.",
}
"""What to do about what a broker refuses. No waiting heals it."""

FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"})


def load_confluent() -> Any:
    """The client library, which is installed by an extra."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise GraphError(
            f"Kafka needs the package confluent-kafka ({error}). Install mainstay[kafka] where the "
            "job is started and on every machine that runs its workers."
        ) from error
    return confluent_kafka


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSettings:
    """Where the brokers are, and what the user has set for the clients."""

    servers: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)  # it holds passwords

    def __repr__(self) -> str:
        return f"KafkaSettings({self.servers!r}, {masked_settings(self.config)})"

    @staticmethod
    def checked(
        who: str, servers: Any, config: Mapping[str, Any] | None, ours: Iterable[str]
    ) -> KafkaSettings:
        """The settings of a source or sink; ``ours`` are those that it has to set itself."""
        load_confluent()
        if not isinstance(servers, str):
            servers = ",".join(servers)
        if not servers:
            raise GraphError(f'{who}: name at least one server, as in "localhost:9092".')
        config = dict(config or {})
        for name in ("bootstrap.servers", *ours):
            if name in config:
                raise GraphError(
                    f"{who}(config=...) must not set {name!r}, which is set from the other "
                    "arguments. Leave it out."
                )
        return KafkaSettings(servers, config)

    def consumer(self, noted: Noted, **settings: Any) -> Any:
        return self._made(load_confluent().Consumer, noted, settings)

    def producer(self, noted: Noted, **settings: Any) -> Any:
        return self._made(load_confluent().Producer, noted, settings)

    def admin(self, noted: Noted) -> Any:
        return self._made(load_confluent().admin.AdminClient, noted, {})

    def _made(self, client: Any, noted: Noted, settings: dict[str, Any]) -> Any:
        noted.secrets = secrets_of(self.config)
        try:
            return client(self._merged(noted, settings))
        except (load_confluent().KafkaException, TypeError, ValueError) as error:
            told = masked(_told(error), noted.secrets)
        # Nobody was asked yet: it is the settings that are wrong. The cause would show them.
        raise GraphError(f"the client of Kafka refuses its settings: {told}. Correct config=.")

    def _merged(self, noted: Noted, settings: dict[str, Any]) -> dict[str, Any]:
        # What goes wrong is raised as exceptions: the client need not write it to stderr as well.
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        ours = {"bootstrap.servers": self.servers, "error_cb": noted, "log_level": 0}
        return {"socket.timeout.ms": int(ANSWER_S * 1000), **dotted, **self.config, **ours}


class Noted:
    """Remembers what a client said of its connections: a call that times out does not say why."""

    def __init__(self) -> None:
        self.refusal: Any = None
        self.is_cut = False
        """Whether a connection was lost."""
        self.secrets: list[str] = []
        """What must not be in messages."""

    def __call__(self, error: Any) -> None:
        self.is_cut = self.is_cut or error.name() in ("_TRANSPORT", "_ALL_BROKERS_DOWN")
        if error.name() in REMEDIES:
            self.refusal = error


def meaning(
    error: Any, what: str, failure: type[MainstayError], noted: Noted | None = None
) -> Exception:
    """What to raise for a ``KafkaException`` or ``KafkaError``; ``what`` could not be done."""
    error = error.args[0] if isinstance(error, Exception) else error
    if noted is not None and noted.refusal is not None:
        error = noted.refusal
    name = error.name()
    told = masked(error.str(), () if noted is None else noted.secrets)
    if name in REMEDIES:
        return failure(f"{what}: {name}: {told}. {REMEDIES[name]}")
    return UnavailableError(f"{what}: {name}: {told}")


def _told(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(error)


def is_fenced(error: Any) -> bool:
    """Whether a newer producer of the same name has taken over."""
    return error.args[0].name() in FENCED


def partitions_of(client: Any, topic: str, failure: type[MainstayError], noted: Noted) -> list[int]:
    """The partitions of a topic that exists.

    A broker that is just starting does not know its topics yet, so it is asked for a while before
    it is believed that there is no such topic.
    """
    what = f"the partitions of topic {topic!r} cannot be found"
    until = monotonic() + UNKNOWN_S
    while True:
        try:
            found = client.list_topics(topic, timeout=ANSWER_S).topics[topic]
        except load_confluent().KafkaException as error:
            raise meaning(error, what, failure, noted) from error
        if found.error is None:
            return sorted(found.partitions)
        if found.error.name() not in UNKNOWN:
            raise meaning(found.error, what, failure)
        if monotonic() >= until:
            raise failure(f"{what}: the brokers know none. Create the topic, or correct its name.")
        sleep(ASK_AGAIN_S)  # nobody tells when a broker has loaded its topics


def offsets_of(
    admin: Any,
    wanted: Mapping[tuple[str, int], Any],
    failure: type[MainstayError],
    noted: Noted,
) -> dict[tuple[str, int], int]:
    """The offsets that ``OffsetSpec``s stand for; -1 where no record is that young."""
    kafka = load_confluent()
    asked = {kafka.TopicPartition(*place): spec for place, spec in wanted.items()}
    if not asked:
        return {}
    level = kafka.IsolationLevel.READ_COMMITTED
    futures = admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S)
    found = {}
    for partition, future in futures.items():
        what = f"the offsets of {partition.topic}-{partition.partition} cannot be found"
        place = (partition.topic, partition.partition)
        found[place] = _answer(future.result, what, failure, noted).offset
    return found


def broker_setting(admin: Any, name: str) -> str | None:
    """A setting of some broker, for people to read; None where it is unknown."""
    kafka = load_confluent()
    try:
        broker = next(iter(admin.list_topics(timeout=ANSWER_S).brokers))
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResource.Type.BROKER, str(broker))
        settings = admin.describe_configs([resource])[resource].result(ANSWER_S)
    except (kafka.KafkaException, TimeoutError):
        return None  # an error is being reported already, and this is only a part of it
    return str(settings[name].value) if name in settings else None


def _answer(
    ask: Callable[[float], Any], what: str, failure: type[MainstayError], noted: Noted
) -> Any:
    try:
        return ask(2 * ANSWER_S)
    except load_confluent().KafkaException as error:
        raise meaning(error, what, failure, noted) from error
