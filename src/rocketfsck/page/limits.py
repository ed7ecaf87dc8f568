"""How much of everything a page has at most: what it costs does not grow with the store."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of rows. Beyond them, what is alike is put together and counted.

    `new_file_count` and `strip_count` are files that a plan brings, and strips that it changes.

    `span_count` spans are shared out evenly among the commit log files, each gets `file_span_count` at most.
    `file_finding_count` findings of one rule in one file are kept first, and then what is left room for.
    """

    file_count: int = 20_480
    new_file_count: int = 4096
    strip_count: int = 4096
    span_count: int = 12_288
    file_span_count: int = 512
    damage_count: int = 2048
    finding_count: int = 2000
    file_finding_count: int = 20
    by_file_count: int = 4096
    crowd_count: int = 4096
    file_crowd_count: int = 64
    window_count: int = 192
    window_size: int = 192
    bucket_count: int = 1024
    event_count: int = 1000
    gap_count: int = 100
    lost_count: int = 1024
    queue_count: int = 20_480
    position_count: int = 10_000
    index_count: int = 1024
    action_count: int = 500
    extent_count: int = 16
    range_count: int = 256
    start_file_count: int = 100
    unanswered_count: int = 100
    not_checked_count: int = 200
    text_size: int = 400

    @property
    def of_changes(self) -> Limits:
        """The limits of what is said a second time, as the plan leaves it."""
        return replace(
            self,
            position_count=self.position_count // 2,
            finding_count=self.finding_count // 5,
            by_file_count=self.by_file_count // 2,
            crowd_count=self.crowd_count // 8,
        )


DEFAULT = Limits()
