"""Who consumes what, by the files of a broker that say so.

    subscriptionGroup.json    subscriptionGroupTable: the settings of each consumer group, and from 5.0.0 on
                              `subscriptionDataSet`, the topics that it subscribes to
    consumerFilter.json       filterDataByTopic: subscriptions with expressions of SQL92

Each function takes the value of `config.decode_config` and raises FormatError if it has not the shape that a
broker would load. Reference 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rocketfsck.formats.config import integer_of, member_of, table_of


@dataclass(frozen=True, slots=True)
class SubscriptionGroup:
    """A consumer group of `subscriptionGroup.json`, with what a broker assumes where a setting is missing."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group subscribes to of a topic: the kind of expression (TAG, SQL92), and the expression."""

    group: str
    topic: str
    expression_type: str | None
    expression: str | None


def subscription_groups(value: Any) -> dict[str, SubscriptionGroup]:
    """The consumer groups of `subscriptionGroup.json` by the name they are listed under."""
    found = {}
    for listed, item in member_of(value, "subscriptionGroupTable").items():
        entry = table_of(item, f"group {listed}")
        settings: dict[str, Any] = {}
        for setting in fields(SubscriptionGroup):
            stated = entry.get(_camel(setting.name))
            if stated is not None and isinstance(setting.default, bool):
                settings[setting.name] = stated is True
            elif stated is not None and isinstance(setting.default, int):
                settings[setting.name] = integer_of(stated, f"{_camel(setting.name)} of {listed}")
        attributes = {str(name): str(text) for name, text in member_of(entry, "attributes").items()}
        name = str(entry.get("groupName", listed))
        found[str(listed)] = SubscriptionGroup(name, **settings, attributes=attributes)
    return found


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def group_subscriptions(value: Any) -> list[Subscription]:
    """The subscriptions that `subscriptionGroup.json` has with its groups, in its order."""
    found = []
    for listed, item in member_of(value, "subscriptionGroupTable").items():
        entries = table_of(item, f"group {listed}").get("subscriptionDataSet")
        for entry in entries if isinstance(entries, list) else ():
            values = table_of(entry, f"a subscription of {listed}")
            found.append(_subscription(str(listed), str(values.get("topic", "")), values))
    return found


def filter_subscriptions(value: Any) -> list[Subscription]:
    """The subscriptions that `consumerFilter.json` has, in its order."""
    found = []
    for topic, item in member_of(value, "filterDataByTopic").items():
        for group, entry in member_of(item, "groupFilterData").items():
            values = table_of(entry, f"a subscription of {group}")
            found.append(_subscription(str(group), str(topic), values))
    return found


def _subscription(group: str, topic: str, values: Mapping[Any, Any]) -> Subscription:
    kind, text = values.get("expressionType"), values.get("expression")
    return Subscription(
        group, topic, None if kind is None else str(kind), None if text is None else str(text)
    )
