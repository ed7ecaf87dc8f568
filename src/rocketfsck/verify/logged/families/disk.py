"""Lines about free space, config files and what is written to disk besides messages."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.model import Family, Issue

FAMILIES = (
    Family(
        "disk-full",
        "damage",
        "The disk is fuller than the limit, so the broker deletes the oldest files before their time, or "
        "refuses messages. After the disk has room, older versions stay not writable until a restart.",
        "Make room outside the store, or raise diskMaxUsedSpaceRatio. Check before the next start: the "
        "newest files may be empty.",
        begins=(
            "physic disk maybe full soon",
            "physic disk of commitLog maybe full soon",
            "logics disk maybe full soon",
            "commitLog disk maybe full soon",
            "consumeQueue disk maybe full soon",
            "Logical disk usage",
        ),
        command="info STORE",
        rules=(RuleName.EMPTY_LAST_SEGMENT, RuleName.SEGMENTS_NEVER_FILLED),
        classes=("C9",),
        issues=(Issue(2398), Issue(1367)),
    ),
    Family(
        "disk-ok",
        "normal",
        "The broker measured the disk and found enough room.",
        "Nothing to do.",
        begins=("physic disk space", "physic disk of commitLog used", "logics disk space OK"),
        command="info STORE",
    ),
    Family(
        "config-fallback",
        "damage",
        "A config file could not be read, so the broker takes its .bak, which is one save older. If the "
        ".bak fails too, the start fails, or the config begins empty.",
        "Check says what is readable in both, and what the older content would change; `fix` restores from "
        "what is "
        "left.",
        begins=("load {fileName} failed, and try to load backup file",),
        rules=(
            RuleName.CONFIG_LOST,
            RuleName.CONFIG_FALLS_BACK,
            RuleName.CONFIG_TRAILING_BYTES,
            RuleName.CONFIG_BACKUP_DAMAGED,
        ),
        classes=("K5",),
        issues=(Issue(7729), Issue(8395), Issue(6096), Issue(1498), Issue(9328)),
    ),
    Family(
        "config-lost",
        "damage",
        "Neither a config file nor its .bak could be read. The broker does not start, or starts without "
        "topics, offsets or subscriptions.",
        "Do not start the broker: `fix` rebuilds topics from queues and the log, and says what is lost.",
        begins=("load {fileName} Failed", "load {fileName} failed, and delete invalid file"),
        owners=("ConfigManager",),
        rules=(RuleName.CONFIG_LOST, RuleName.TOPICS_GONE, RuleName.CONSUMER_OFFSETS_GONE),
        classes=("K5",),
        issues=(Issue(9705), Issue(3401)),
    ),
    Family(
        "config-write",
        "damage",
        "A config file could not be saved. After a crash the broker begins with the older content.",
        "Look for a full disk or missing permissions.",
        begins=(
            "persist file {fileName} exception",
            "Failed to persist",
            "BrokerController: failed to persist config file",
            "schedule persist",
        ),
        rules=(RuleName.CONFIG_UNFINISHED_WRITE, RuleName.CONFIG_BACKUP_NEWER),
        classes=("K5", "C9"),
    ),
    Family(
        "config-loaded",
        "normal",
        "A config file was read.",
        "Nothing to do.",
        begins=("load {fileName} OK", "load exist "),
        command="info STORE",
    ),
    Family(
        "offset-less",
        "notice",
        "A consumer committed a smaller offset than the store has for its group: an offset that was reset, "
        "or two consumers of one queue.",
        "See the group's position against the queue.",
        begins=("[NOTIFYME]update consumer offset less than store",),
        command="query offsets STORE",
        rules=(RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSET_BEHIND),
        classes=("K6",),
        issues=(Issue(1440),),
    ),
    Family(
        "offset-removed",
        "normal",
        "The broker removed the offsets of a group or topic that was deleted or has no subscription.",
        "Nothing to do, unless nobody deleted it: the group begins again by its own setting.",
        begins=("remove topic offset", "clean group offset", "Clean group's offset", "Clean topic's offset"),
        command="query offsets STORE",
        rules=(RuleName.CONSUMER_OFFSETS_GONE, RuleName.CONSUMER_OFFSET_LOOSE),
        classes=("K6",),
    ),
)
