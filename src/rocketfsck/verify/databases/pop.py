"""POP records of a database, by themselves: JSON and key of a row have to agree. Reference 11.7."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.errors import FormatError
from rocketfsck.rulenames import RuleName
from rocketfsck.store.rocks.families import Content
from rocketfsck.store.rocks.oddrows import OddRows
from rocketfsck.store.rocks.reading import Rows
from rocketfsck.store.rocks.rows import decode_row
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.tasks.shared import Shared


def check_pop(database: str, rows: Rows, odd: OddRows, shared: Shared) -> Iterator[Finding]:
    """Yield a finding for each record whose JSON and key differ; rows that cannot be decoded go to `odd`."""
    for key, value in rows.pairs():
        try:
            _, values = decode_row(Content.POP, key, value)
        except FormatError as error:
            odd.add(rows.family, key, str(error))
            continue
        shared.ask(RuleName.POP_ROW, 1)
        content = values["content"]
        told = content if isinstance(content, dict) else {}
        times = [told.get(name) for name in ("popTime", "invisibleTime")]
        visible = sum(times) if all(isinstance(time, int) for time in times) else None  # type: ignore[arg-type]
        pairs = (
            ("visibleTime", values["visibleTime"], visible),
            ("groupId", values["group"].decode("utf-8", "replace"), told.get("groupId")),
            ("topicId", values["topic"].decode("utf-8", "replace"), told.get("topicId")),
            ("queueId", values["queueId"], told.get("queueId", 0)),
            ("offset", values["queueOffset"], told.get("offset", 0)),
        )
        wrong = [
            f"{name} is {in_key} in the key, but {in_value} in the value"
            for name, in_key, in_value in pairs
            if in_key != in_value
        ]
        if wrong:
            group, topic = pairs[1][1], pairs[2][1]
            where = Where(
                file=database,
                topic=topic,
                queue_id=values["queueId"],
                queue_offset=values["queueOffset"],
            )
            facts: Facts = {"database": database, "group": group, "reason": wrong[0]}
            yield Finding(RuleName.POP_ROW, where, facts)
