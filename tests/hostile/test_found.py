"""What the fuzzer found, once corrected: each a store and its changes, as small as it gets, with a name.

`Case` and `Mutation` are the fuzzer's; it prints such rows itself. All laws are held against each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import NIGHTLY
from tests.hostile.fuzz.cases import Case, Scenario
from tests.hostile.fuzz.drawing import survey
from tests.hostile.fuzz.mutations import Mutation, apply_mutation, copy_store
from tests.hostile.fuzz.subjects import Subject, build_subjects
from tests.hostile.fuzz.workers import run_here

CHECK = Scenario("read", ("check", "--level", "full", "{store}", "{stated}", "--format", "json"))
REPAIR = Scenario("repair")
IN_PLACE = Scenario("repair", ("--in-place",))
FIRST, SECOND, THIRD = (f"commitlog/{start:020}" for start in (0, 2048, 4096))


def _damage(fault: str, seed: int, *options: str) -> Scenario:
    named = ":".join((fault, ",".join(options))).rstrip(":")
    line = ("damage", "{store}", "--into", "{out}/damaged", "--fault", named, "--seed", str(seed), "{stated}")
    return Scenario("read", line)


FOUND = {
    "a unit of a tiered queue with a negative offset": Case(
        283544,
        "5.2.0-tiered",
        (
            Mutation(
                "set",
                "tiered/d5771ffb_RealCluster/broker-a/TrOrder/0/CONSUME_QUEUE/cfcd208400000000000000000000",
                {"pos": 0, "data": "ff" * 8},
                "tiered consumequeue_unit.offset",
            ),
        ),
        (CHECK,),
    ),
    "a damage that renames a sparse file of 512 GiB": Case(
        255358,
        "delay-5.1.4",
        (Mutation("truncate", SECOND, {"size": 1 << 39}),),
        (_damage("segment-misnumbered", 23),),
    ),
    "a queue offset whose place in a queue file is beyond 64 bits": Case(
        221823,
        "killed-4.9.8",
        (
            Mutation(
                "set",
                "commitlog/00000000000000000000",
                {"pos": 635, "data": "7f" + "ff" * 7},
                "record.queueOffset",
            ),
        ),
        (CHECK, REPAIR),
    ),
    "a short checkpoint with a number where newer versions have a field": Case(
        219981,
        "lmq-4.9.8",
        (
            Mutation("truncate", "checkpoint", {"size": 0}),
            Mutation("set", "checkpoint", {"pos": 32, "data": "18f44075876cc37f"}),
        ),
        (CHECK, REPAIR),
    ),
    "a full index file whose header has a wrong end, and entries behind the log": Case(
        725,
        "4.9.8-ghosttail",
        (
            Mutation(
                "set", "index/20261120140657534", {"pos": 24, "data": "ff" * 8}, "index_header.endPhyOffset"
            ),
        ),
        (CHECK, REPAIR),
    ),
    "two commit log files with each other's names": Case(
        301,
        "ext-4.9.8",
        (Mutation("swap", SECOND, {"other": FIRST}),),
        (CHECK, IN_PLACE, REPAIR),
    ),
    "two commit log files with each other's names, and damage that has nothing to do with it": Case(
        301,
        "ext-4.9.8",
        (
            Mutation("swap", SECOND, {"other": FIRST}),
            Mutation("set", "consumequeue_ext/TopicB/0/00000000000000000000", {"pos": 42, "data": "7de0"}),
        ),
        (CHECK, IN_PLACE, REPAIR),
    ),
    "three commit log files, each with the next one's name": Case(
        301,
        "plain-5.3.3",
        (Mutation("swap", SECOND, {"other": FIRST}), Mutation("swap", THIRD, {"other": FIRST})),
        (CHECK, IN_PLACE, REPAIR),
    ),
    "commit log files, each with the name of the one behind it": Case(
        301,
        "plain-5.3.3",
        (
            Mutation("rename", THIRD, {"name": "commitlog/00000000000000006144"}),
            Mutation("rename", SECOND, {"name": THIRD}),
            Mutation("rename", FIRST, {"name": SECOND}),
        ),
        (CHECK, REPAIR),
    ),
    "a file that no check can read, before the repair and after it": Case(
        480,
        "ext-4.9.8",
        (
            Mutation("shift", "consumequeue_ext/TopicB/1/00000000000000000000", {"pos": 0, "size": -20}),
            Mutation("truncate", "checkpoint", {"size": 1 << 40}),
        ),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a FIFO in the place of the checkpoint": Case(
        1655, "lmq-4.9.8", (Mutation("fifo", "checkpoint", {}),), (CHECK, REPAIR, IN_PLACE)
    ),
    "a FIFO in the place of the lock": Case(
        406, "killed-4.9.8", (Mutation("fifo", "lock", {}),), (CHECK, REPAIR, IN_PLACE)
    ),
    "a directory in the place of the checkpoint": Case(
        1655,
        "lmq-4.9.8",
        (Mutation("to-directory", "checkpoint", {"inside": "x"}),),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a state of a check that somebody changed": Case(
        1604,
        "4.4.0-trans",
        (Mutation("remove", "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC/0", {}),),
        (Scenario("hostile-resume", (), 31, False),),
    ),
    "a commit log directory that is a link to itself": Case(
        2508,
        "4.9.8-lmq",
        (Mutation("link", "commitlog", {"target": "@/commitlog"}),),
        (
            CHECK,
            Scenario("read", ("rebuild", "consumequeue", "{store}", "--into", "{out}/built", "--no-sync")),
            Scenario("read", ("dump", "{store}/commitlog", "-o", "{out}/dumped")),
            Scenario("read", ("export", "{store}", "--into", "{out}/exported")),
        ),
    ),
    "an empty commit log, healed from its replica": Case(
        11692,
        "4.4.0-trans",
        (Mutation("truncate", FIRST, {"size": 0}),),
        (CHECK, Scenario("heal"), Scenario("heal", ("--in-place",))),
    ),
    "files in the place of consumequeue/ and index/": Case(
        719,
        "batch-5.3.3",
        (Mutation("to-file", "index", {"data": "ff"}), Mutation("to-file", "consumequeue", {"data": ""})),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "files where the directories of queues belong": Case(
        727,
        "lmq-4.9.8",
        (
            Mutation("to-file", "consumequeue/TopicA", {"data": ""}),
            Mutation("to-file", "consumequeue/%LMQ%one/0", {"data": "00" * 20}),
        ),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a link at the root that leads to the commit log beside it": Case(
        882,
        "4.4.0-trans",
        (
            Mutation("remove", "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC", {}),
            Mutation("link", "\x1b[31mred", {"target": "@/commitlog"}),
        ),
        (CHECK, REPAIR, Scenario("repair", ("--preen",))),
    ),
    "a config file of 1 TiB, all of it a hole, in a store that is salvaged": Case(
        702500,
        "wide-5.1.4",
        (Mutation("truncate", "config/topics.json", {"size": 1 << 40}),),
        (Scenario("read", ("salvage", "{store}", "--into", "{out}/saved")),),
    ),
    "a plan whose list of queues is no list": Case(
        803692,
        "5.0.0-innerbatch",
        (Mutation("set", f"batchconsumequeue/Ib/1/{0:020}", {"pos": 302, "data": "00" * 6}),),
        (Scenario("hostile-plan", (), 360631100, True),),
    ),
    "a record whose bornTimestamp its property CRC contradicts, healed from its replica": Case(
        800770,
        "5.3.3-propcrc",
        (Mutation("set", FIRST, {"pos": 7688, "data": "00" * 8}, "record.bornTimestamp"),),
        (CHECK, Scenario("heal")),
    ),
    "a link to a device in the place of a queue's directory": Case(
        1638,
        "wide-5.1.4",
        (Mutation("link", "consumequeue/TopicB/1", {"target": "/dev/full"}),),
        (CHECK, IN_PLACE, Scenario("repair", ("--in-place", "--preen"))),
    ),
    "a FIFO in the place of a queue's file": Case(
        7979,
        "5.3.3-propcrc",
        (Mutation("fifo", f"consumequeue/CrcB/1/{0:020}", {}),),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a directory in the place of a queue's file": Case(
        11878,
        "wide-5.1.4",
        (Mutation("to-directory", f"consumequeue/TopicB/1/{0:020}", {"inside": f"{0:020}"}),),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a FIFO in the place of a commit log file": Case(
        8784, "plain-5.3.3", (Mutation("fifo", SECOND, {}),), (CHECK, REPAIR, IN_PLACE)
    ),
    "the first commit log file, once more behind the log": Case(
        500108,
        "delay-5.1.4",
        (
            Mutation("double", FIRST, {"name": f"commitlog/{10240:020}"}),
            Mutation("remove", "consumequeue/TopicA", {}),
        ),
        (CHECK, REPAIR),
    ),
    "two commit log files with each other's names, one with a stale tail": Case(
        500130,
        "4.9.8-ghosttail",
        (Mutation("swap", f"commitlog/{65536:020}", {"other": FIRST}),),
        (CHECK, REPAIR),
    ),
    "a negative queueId in a record": Case(
        500200,
        "plain-5.3.3",
        (Mutation("set", FIRST, {"pos": 1163, "data": "ffffffff"}, "record.queueId"),),
        (CHECK, REPAIR),
    ),
    "a copy of a topic's queues under a name that no record has": Case(
        500250,
        "killed-5.1.4",
        (Mutation("double", "consumequeue/TopicA", {"name": "consumequeue/77"}),),
        (CHECK, REPAIR),
    ),
    "queues of two topics with each other's names": Case(
        510004,
        "trans-4.9.8",
        (Mutation("swap", "consumequeue/%RETRY%g", {"other": "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC"}),),
        (CHECK, IN_PLACE),
    ),
    "queues with an extension under another topic's name": Case(
        511499,
        "ext-4.9.8",
        (Mutation("rename", "consumequeue/%RETRY%g", {"name": "consumequeue/%LMQ%x"}),),
        (CHECK, REPAIR),
    ),
    "a record's queueOffset far away": Case(
        510002,
        "plain-5.3.3",
        (Mutation("set", SECOND, {"pos": 122, "data": "000000007ffffff0"}, "record.queueOffset"),),
        (CHECK, REPAIR),
    ),
    "a record's queueOffset below zero": Case(
        510003,
        "plain-5.3.3",
        (Mutation("set", FIRST, {"pos": 481, "data": "ff" * 8}, "record.queueOffset"),),
        (CHECK, IN_PLACE),
    ),
    "a record's topic that became another one, after a crash": Case(
        530000,
        "killed-5.1.4",
        (Mutation("set", SECOND, {"pos": 426, "data": "2552455452590567"}, "record.topic"),),
        (CHECK, REPAIR),
    ),
    "two commit log files with each other's names, and a queue file with the name of an extension": Case(
        530001,
        "ext-4.9.8",
        (
            Mutation("swap", FIRST, {"other": SECOND}),
            Mutation(
                "swap",
                f"consumequeue/TopicB/1/{0:020}",
                {"other": f"consumequeue_ext/%RETRY%g/1/{0:020}"},
            ),
        ),
        (CHECK, REPAIR),
    ),
    "a batch queue with a hole of a tebibyte, and another queue that is wrong": Case(
        531486,
        "batch-5.3.3",
        (
            Mutation("truncate", f"batchconsumequeue/Batch/0/{0:020}", {"size": 1 << 40}),
            Mutation("set", f"consumequeue/TopicB/0/{0:020}", {"pos": 40, "data": "00" * 8}),
        ),
        (CHECK, Scenario("repair", ("--in-place", "--preen"))),
    ),
    "records of batches overwritten by others": Case(
        510007,
        "5.0.0-innerbatch",
        (Mutation("copy-bytes", FIRST, {"source": 2629, "target": 18127, "size": 512}),),
        (CHECK, IN_PLACE),
    ),
    "a queue that cannot be built again after a crash": Case(
        510000,
        "killed-5.1.4",
        (Mutation("link", f"consumequeue/%RETRY%g/1/{0:020}", {"target": "@/.."}),),
        (CHECK, REPAIR),
    ),
    "an early BLANK, and no queue that leads to what is behind it": Case(
        1,
        "plain-5.3.3",
        (
            Mutation("set", FIRST, {"pos": 700, "data": "00000544cbd43194"}),
            Mutation("remove", "consumequeue/TopicA/0", {}),
        ),
        (CHECK, REPAIR),
    ),
    "a directory in the place of a delay level's queue file": Case(
        203212,
        "4.9.8-delay",
        (Mutation("to-directory", f"consumequeue/SCHEDULE_TOPIC_XXXX/0/{0:020}", {"inside": ""}),),
        (CHECK, REPAIR),
    ),
    "a commit log file that is cut, with only what is provably safe": Case(
        511639,
        "restarted-5.1.4",
        (Mutation("truncate", FIRST, {"size": 615}),),
        (CHECK, Scenario("repair", ("--preen",))),
    ),
    "a link to a file in the place of all queue extensions": Case(
        2, "ext-4.9.8", (Mutation("link", "consumequeue_ext", {"target": "@/checkpoint"}),), (CHECK, REPAIR)
    ),
    "links that lead to themselves": Case(
        500043,
        "plain-5.3.3",
        (
            Mutation("link", "checkpoint", {"target": "@/checkpoint"}),
            Mutation("link", "index", {"target": "@/index"}),
            Mutation("link", "consumequeue/TopicA/0", {"target": "@/consumequeue/TopicA/0"}),
            Mutation("set", "consumequeue/TopicB/1/00000000000000000000", {"pos": 0, "data": "ff" * 8}),
        ),
        (CHECK, IN_PLACE, REPAIR, Scenario("heal")),
    ),
    "links to nowhere in the place of directories": Case(
        8,
        "plain-5.3.3",
        (
            Mutation("link", "index", {"target": "/nonexistent"}),
            Mutation("link", "consumequeue/TopicA", {"target": "/nonexistent"}),
        ),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a record's physicalOffset after a crash": Case(
        511500,
        "killed-5.1.4",
        (Mutation("set", FIRST, {"pos": 28, "data": "00" * 7 + "07"}, "record.physicalOffset"),),
        (CHECK, REPAIR),
    ),
    "a hole of a tebibyte": Case(
        200109,
        "restarted-5.1.4",
        (Mutation("truncate", FIRST, {"size": 1 << 40}),),
        (CHECK, Scenario("read", ("dump", "{store}", "--hex", "-v")), Scenario("heal")),
    ),
    "an index of DLedger with a hole of a tebibyte": Case(
        209685,
        "dledger-4.9.8",
        (Mutation("truncate", f"dledger-n0/index/{0:020}", {"size": 1 << 40}),),
        (CHECK,),
    ),
    "two commit log files with each other's names after a crash": Case(
        209468,
        "killed-5.1.4",
        (Mutation("swap", THIRD, {"other": f"commitlog/{6144:020}"}),),
        (CHECK, REPAIR),
    ),
    "an index file that ends within its slots": Case(
        936747,
        "later-5.0.0",
        (
            Mutation("set", "index/20231114221320000", {"pos": 44, "data": "00000002"}),
            Mutation("truncate", "index/20231114221320000", {"size": 64}),
        ),
        (CHECK, Scenario("read", ("plan", "{store}", "{stated}", "--level", "cross"))),
    ),
    "a queue of a tebibyte that is to be damaged": Case(
        931448,
        "expired-4.9.8",
        (Mutation("truncate", f"consumequeue/TopicA/1/{0:020}", {"size": 1 << 40}),),
        (_damage("wrong-delivery", 51),),
    ),
    "a config file of a tebibyte that is to be damaged": Case(
        932540,
        "wide-5.1.4",
        (Mutation("truncate", "config/topics.json", {"size": 1 << 40}),),
        (_damage("config-nuls", 32), _damage("ghost-queue", 1)),
    ),
    "an index file of a tebibyte that is to be damaged": Case(
        938581,
        "5.3.3-propcrc",
        (Mutation("truncate", "index/20261120140617832", {"size": 1 << 40}),),
        (_damage("bit-flip", 25, "area=index"), _damage("zero-sector", 3)),
    ),
    "a plan with a number that no header has room for": Case(
        942801,
        "4.9.8-lmq",
        (Mutation("set", "index/20261120140614921", {"pos": 32, "data": "00000032"}),),
        (CHECK, Scenario("hostile-plan", (), 3798205400)),
    ),
    "an index file that is much longer than the other": Case(
        946012,
        "4.9.8-ghosttail",
        (Mutation("truncate", "index/20261120140657534", {"size": 1 << 30}),),
        (CHECK, REPAIR),
    ),
    "a queue with a hole of a tebibyte, and its copy": Case(
        954060,
        "delay-5.1.4",
        (
            Mutation("truncate", f"consumequeue/SCHEDULE_TOPIC_XXXX/0/{0:020}", {"size": 1 << 40}),
            Mutation("double", "consumequeue/SCHEDULE_TOPIC_XXXX", {"name": "consumequeue/000"}),
        ),
        (CHECK,),
    ),
    "a plan that does not say which bit is wrong": Case(
        968206,
        "sides-5.3.3",
        (Mutation("set", FIRST, {"pos": 1159, "data": "691ff0c5"}, "record.bodyCRC"),),
        (CHECK, Scenario("hostile-plan", (), 2011451673)),
    ),
    "a log file with a negative number for a name": Case(
        967860,
        "4.4.0-trans",
        (Mutation("double", FIRST, {"name": "commitlog/-5"}),),
        (CHECK, REPAIR),
    ),
    "a log of DLedger alone whose checkpoint is to be damaged": Case(
        974303,
        "dledger-4.9.8",
        (Mutation("set", f"dledger-n0/data/{0:020}", {"pos": 6535, "data": "00000000"}),),
        (_damage("checkpoint-ahead", 31),),
    ),
    "a link to a device": Case(
        2236,
        "plain-4.4.0",
        (
            Mutation("set", "index/20231114221320000", {"pos": 76, "data": "ff" * 4}),
            Mutation("link", "device", {"target": "/dev/full"}),
        ),
        (CHECK, REPAIR, IN_PLACE),
    ),
    "a link to itself in the place of a queue, and damage of queues beside it": Case(
        803690,
        "4.9.8-ghosttail",
        (Mutation("link", "consumequeue/Gt1/1", {"target": "@/consumequeue/Gt1/1"}),),
        (CHECK, Scenario("repair", ())),
    ),
    "a lock that is a link to itself, and a checkpoint that must be written": Case(
        901845,
        "4.9.8-ipv6",
        (
            Mutation(
                "set", "checkpoint", {"pos": 32, "data": "7fffffffffffffff"}, "checkpoint.confirmPhyOffset"
            ),
            Mutation("link", "lock", {"target": "@/lock"}),
        ),
        (CHECK, Scenario("repair", ("--in-place",))),
    ),
    "a crash, and a record whose topic is no text: brokers make a queue for it that no repair makes": Case(
        901218,
        "killed-5.1.4",
        (
            Mutation(
                "set",
                "commitlog/00000000000000002048",
                {"pos": 1520, "data": "57726639f85b2cf7"},
                "record.topic",
            ),
        ),
        (CHECK, Scenario("repair", ("--in-place",), stated=True)),
    ),
    "a spoiled BLANK hid a record whose topic is no text": Case(
        908618,
        "trans-4.9.8",
        (
            Mutation(
                "set",
                "commitlog/00000000000000004096",
                {"pos": 314, "data": "000000000000000000000000000000000000000000000000000000"},
                "record.topic",
            ),
            Mutation(
                "set", "index/20231114221320000", {"pos": 300, "data": "00000009"}, "index_entry.prevIndex"
            ),
            Mutation(
                "set", "commitlog/00000000000000000000", {"pos": 2021, "data": "342bce6c"}, "blank.magicCode"
            ),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "links of index files, and damage of the log that has the whole index built again": Case(
        903955,
        "plain-4.4.0",
        (
            Mutation("truncate", "commitlog/00000000000000000000", {"size": 101}),
            Mutation("set", "index/20231114221320000", {"pos": 239, "data": "2e2e"}),
            Mutation(
                "set", "index/20231114221327000", {"pos": 48, "data": "00000234"}, "index_slot.newestIndex"
            ),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a queue with a negative number whose units point behind the log": Case(
        913640,
        "4.9.8-ghosttail",
        (
            Mutation("double", "consumequeue/Gt0/0", {"name": "consumequeue/Gt0/-5"}),
            Mutation(
                "set", "commitlog/00000000000000000000", {"pos": 65495, "data": "cbd43193"}, "blank.magicCode"
            ),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a commit log file with zeros behind its length and a BLANK of a wrong one": Case(
        934843,
        "plain-5.3.3",
        (
            Mutation("truncate", FIRST, {"size": 2068}),
            Mutation("set", FIRST, {"pos": 1985, "data": "80000000"}, "blank.totalSize"),
        ),
        (CHECK, IN_PLACE),
    ),
    "a checkpoint in the place of the first commit log file": Case(
        959141,
        "batch-5.3.3",
        (Mutation("swap", "checkpoint", {"other": FIRST}),),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a hard link in the place of a commit log file, and longer": Case(
        906172,
        "sides-5.3.3",
        (Mutation("hard-link", SECOND, {"other": "timerlog/00000000000000000000"}),),
        (CHECK, Scenario("repair", ("--in-place",), stated=True)),
    ),
    "records that say that they stand elsewhere, a wrong BLANK, and a file that is too long": Case(
        947879,
        "batch-5.3.3",
        (
            Mutation("swap-bytes", SECOND, {"first": 1257, "second": 1078, "size": 1800}),
            Mutation("remove", "consumequeue", {}),
        ),
        (CHECK, IN_PLACE),
    ),
    "a batch queue's file in the place of the only commit log file": Case(
        919446,
        "5.0.0-innerbatch",
        (Mutation("swap", FIRST, {"other": "batchconsumequeue/Ib/0/00000000000000000920"}),),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a queue file of a TiB of holes, and units behind the log": Case(
        982346,
        "4.9.8-ghosttail",
        (
            Mutation("truncate", "consumequeue/Gt0/0/00000000000000001000", {"size": 1 << 40}),
            Mutation("set", FIRST, {"pos": 65495, "data": "cbd43184"}, "blank.magicCode"),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a commit log file of a TiB of holes, and a wrong BLANK": Case(
        985189,
        "wide-5.1.4",
        (
            Mutation("remove", SECOND, {}),
            Mutation("set", FIRST, {"pos": 1964, "data": "7fffffff"}, "blank.magicCode"),
            Mutation("truncate", FIRST, {"size": 1 << 40}),
        ),
        (CHECK, Scenario("repair", ())),
    ),
    "neither checkpoint nor an orderly stop, and damage": Case(
        977129,
        "expired-4.9.8",
        (
            Mutation("set", "commitlog/00000000000000006144", {"pos": 785, "data": "cbd43194"}),
            Mutation("write", "abort", {"data": "2d310a"}),
            Mutation("remove", "checkpoint", {}),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a whole record in another place, the last before damage": Case(
        933032,
        "propcrc-5.3.3",
        (
            Mutation("set", SECOND, {"pos": 269, "data": "7fffffff"}, "record.bodyLength"),
            Mutation("swap-bytes", SECOND, {"first": 185, "second": 1147, "size": 512}),
        ),
        (CHECK, Scenario("repair", ())),
    ),
    "a record that says that it stands elsewhere, in a queue that is gone": Case(
        923497,
        "5.3.3-trans",
        (
            Mutation("set", FIRST, {"pos": 9789, "data": "0000000000400000"}, "record.physicalOffset"),
            Mutation("swap", "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC", {"other": "consumequeue/Tx/0"}),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "a killed broker's store with a sound repair, whose next start ends what is left": Case(
        500068,
        "killed-5.1.4",
        (
            Mutation(
                "set", "index/20231114221334700", {"pos": 40, "data": "b55c1a0a"}, "index_slot.newestIndex"
            ),
        ),
        (Scenario("repair", ("--preen",)),),
    ),
    "slots of an index in tiered storage whose items are not in order": Case(
        17353,
        "5.2.0-tiered",
        (
            Mutation(
                "swap-bytes",
                "tiered/d5771ffb_RealCluster/broker-a/rmq_sys_INDEX/0/INDEX/cfcd208400000000000000000000",
                {"first": 108, "second": 244, "size": 512},
            ),
        ),
        (CHECK,),
    ),
    "metadata of tiered storage of a gigabyte": Case(
        9305,
        "5.2.0-tiered",
        (Mutation("truncate", "config/tieredStoreMetadata.json", {"size": 1 << 30}),),
        (CHECK,),
    ),
    "damage to a queue of tiered storage whose size is no multiple of a unit": Case(
        5406,
        "5.2.0-tiered",
        (
            Mutation(
                "swap",
                "tiered/d5771ffb_RealCluster/broker-a/TrBulkb/0/CONSUME_QUEUE/cfcd208400000000000000000000",
                {
                    "other": "tiered/d5771ffb_RealCluster/broker-a/TrOrder/0/COMMIT_LOG/"
                    "7b41bfa500000000000000002466"
                },
            ),
        ),
        (_damage("tiered-segment-missing", 8),),
    ),
    "a queue of tiered storage of a TiB of holes": Case(
        36507,
        "5.2.0-tiered",
        (
            Mutation(
                "truncate",
                "tiered/d5771ffb_RealCluster/broker-a/Warm/0/CONSUME_QUEUE/cfcd208400000000000000000000",
                {"size": 1 << 40},
            ),
        ),
        (CHECK,),
    ),
    "a queue of the delay levels of a TiB of holes": Case(
        65366,
        "delay-5.1.4",
        (
            Mutation("truncate", "lock", {"size": 1 << 40}),
            Mutation("swap", "lock", {"other": "consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000"}),
            Mutation("truncate", "checkpoint", {"size": 4116}),
        ),
        (Scenario("repair", ("--preen",)),),
    ),
    "units of a compacted log in a TiB of holes": Case(
        9338,
        "sides-5.3.3",
        (Mutation("truncate", "compaction/compactionCq/TopicA/0/00000000000000000000", {"size": 1 << 40}),),
        (CHECK, Scenario("read", ("simulate", "{store}", "--as-broker", "5.3.3", "--format", "json"))),
    ),
    "the missing tail of a queue of a TiB of holes": Case(
        33626,
        "4.9.8-delay",
        (Mutation("truncate", "consumequeue/SCHEDULE_TOPIC_XXXX/1/00000000000000000000", {"size": 1 << 40}),),
        (
            Scenario(
                "read",
                (
                    "rebuild",
                    "consumequeue",
                    "{store}",
                    "--into",
                    "{out}/built",
                    "--no-sync",
                    "{stated}",
                    "--only-missing-tail",
                ),
                stated=True,
            ),
        ),
    ),
    "a queue of a GiB of holes in front of its last bytes": Case(
        16066,
        "4.9.8-lmq",
        (
            Mutation("truncate", "consumequeue/%LMQ%dev1/0/00000000000000000000", {"size": 1 << 30}),
            Mutation(
                "set",
                "consumequeue/%LMQ%dev1/0/00000000000000000000",
                {"pos": (1 << 30) - 5000, "data": "7f01" * 1500},
            ),
        ),
        (CHECK, Scenario("repair", (), stated=True)),
    ),
    "units of timers behind a TiB of holes": Case(
        16066,
        "sides-5.3.3",
        (
            Mutation("truncate", "timerlog/00000000000000000000", {"size": 1 << 40}),
            Mutation(
                "set", "timerlog/00000000000000000000", {"pos": (1 << 40) - 5000, "data": "7f01" * 1500}
            ),
        ),
        (CHECK, Scenario("repair", ("--in-place",), stated=True)),
    ),
    "a plan for an index of more slots than memory has room for": Case(
        51633,
        "plain-5.3.3",
        (
            Mutation(
                "set",
                "commitlog/00000000000000002048",
                {"pos": 1432, "data": "0000018bcfe59ea8"},
                "record.bornTimestamp",
            ),
            Mutation(
                "set", "checkpoint", {"pos": 0, "data": "0000018bcff5ac5c"}, "checkpoint.physicMsgTimestamp"
            ),
        ),
        (Scenario("hostile-plan", ("--preen",), 1986862920, True),),
    ),
    "a plan without the arguments of an action": Case(
        26965,
        "5.0.0-innerbatch",
        (
            Mutation("write", "abort", {"data": ""}),
            Mutation("hard-link", "index/20261120140611023", {"other": "checkpoint"}),
        ),
        (Scenario("hostile-plan", ("--in-place",), 2856345553, True),),
    ),
}


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Subject]]:
    yield build_subjects(tmp_path_factory.mktemp("subjects"))


@pytest.mark.parametrize("name", [*FOUND][:: 1 if NIGHTLY else 3])
def test_found(name: str, subjects: dict[str, Subject], tmp_path: Path) -> None:
    case = FOUND[name]
    subject = subjects[case.subject]
    copy_store(subject.path, tmp_path / "tried")
    for mutation in case.mutations:
        assert apply_mutation(tmp_path / "tried", mutation), mutation
    outcome = run_here(case, {subject.name: survey(subject)}, tmp_path)
    assert outcome.violations == ()


def test_a_log_without_a_name_is_not_set_aside(subjects: dict[str, Subject], tmp_path: Path) -> None:
    """A broker refuses to start on it. Without it, brokers start and delete all queues."""
    store = tmp_path / "store"
    copy_store(subjects["5.3.3-trans"].path, store)
    for path in sorted((store / "commitlog").iterdir()):
        path.rename(path.with_name(f"{path.name}.old"))
    opened = open_store(store)
    plan = make_plan(opened, check_store(opened, CheckOptions()))
    assert "ST019" in {item.rule for item in plan.unanswered}
    assert not [action for action in plan.actions if action.target.startswith("commitlog")]
