"""Makes a small store and five damaged copies of it as exercises, and says which of them are solved.

    DIR/sound                      the store, as a broker would have written it; a replica for exercise 5
    DIR/tasks.txt                  what to do, exercise by exercise
    DIR/1-missing-queue/store …    the damaged copies

An exercise is solved where a check finds nothing above a note, a start is predicted to lose nothing, and the
store holds every message that the damage left. All bytes follow from the seed; no broker takes part.

Breaks a copy of a store with named faults, and says what a check must find.

Writes a store as a broker would, from messages or from a seed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rocketfsck.commands import shared
from rocketfsck.common.options import WRITE_FILE, Argument, Option, PathKind
from rocketfsck.common.outputs import limit_to, write_text
from rocketfsck.common.wording import count_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError
from rocketfsck.formats.dialect import WRITTEN_NAME

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.writer.damage import DamageReport
    from rocketfsck.writer.options import WriteOptions
    from rocketfsck.writer.writing import MadeStore

GEOMETRY_FIELDS = (
    "commitlog_file_size",
    "consumequeue_file_size",
    "batch_file_size",
    "ext_file_size",
    "slot_count",
    "entry_count",
)


@dataclass(frozen=True, slots=True)
class StoreShape:
    """Everything that shapes a store, apart from its messages."""

    broker_version: Annotated[
        str,
        Option(
            "Version of the broker that wrote the store, like 4.9.8.",
            metavar="VERSION",
            shows_default=WRITTEN_NAME,
        ),
    ] = WRITTEN_NAME
    broker_conf: shared.BrokerConf = None
    commitlog_file_size: shared.CommitlogFileSize = None
    consumequeue_file_size: shared.ConsumequeueFileSize = None
    batch_file_size: Annotated[
        int | None, Option("Bytes of a batch consume queue file; default 13800000.", kind="size")
    ] = None
    ext_file_size: Annotated[
        int | None, Option("Bytes of a consume queue ext file; default 48MiB.", kind="size")
    ] = None
    slot_count: shared.SlotCount = None
    entry_count: shared.EntryCount = None
    start_offset: shared.StartOffset = None
    time_zone: shared.TimeZone = "UTC"
    batch_topic: Annotated[
        tuple[str, ...], Option("A topic of inner batches; may be given several times.")
    ] = ()
    consumequeue_ext: Annotated[bool, Option("Write consume queue ext units.")] = False
    multi_dispatch: Annotated[bool, Option("Dispatch messages to the queues that they list.")] = False
    property_crc: Annotated[bool, Option("Append a CRC to every record's properties.")] = False
    no_index: Annotated[bool, Option("Write no index files.")] = False
    end_state: Annotated[
        Literal["clean", "killed"],
        Option("How the broker ended: stopped in order, or killed.", shows_default=True),
    ] = "clean"
    no_sync: shared.NoSync = False

    def options(self) -> WriteOptions:
        """The writer's options: what is said here goes over broker.conf.

        Raises UsageError for what makes no sense, StoreError for a broker.conf that cannot be read.
        """
        from rocketfsck.store.circumstances import Geometry
        from rocketfsck.writer.options import EndState, WriteOptions, options_of_settings

        settings: dict[str, Any] = {}
        if self.broker_conf is not None:
            from rocketfsck.store.circumstances import read_settings

            settings = options_of_settings(read_settings(self.broker_conf), self.broker_version)
        sizes = {name: getattr(self, name) for name in GEOMETRY_FIELDS}
        geometry = settings.pop("geometry", Geometry())
        geometry = replace(geometry, **{name: size for name, size in sizes.items() if size is not None})
        for name in ("consumequeue_ext", "multi_dispatch"):
            settings[name] = getattr(self, name) or settings.get(name, False)
        settings["append_property_crc"] = self.property_crc or settings.get("append_property_crc", False)
        if self.no_index:
            settings["message_index"] = False
        return WriteOptions(
            version=self.broker_version,
            geometry=geometry,
            end_state=EndState(self.end_state),
            time_zone=self.time_zone,
            start_offset=self.start_offset or 0,
            batch_topics=frozenset(self.batch_topic),
            sync=not self.no_sync,
            **settings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommand:
    """Where messages come from, and the store that is made of them."""

    input_path: Annotated[Path | None, Argument(metavar="[INPUT]", kind=PathKind(use="file"))] = None
    into: shared.Into
    synth: Annotated[
        str | None,
        Option(
            "Synthesise messages: plain (the default), mixed, everything, or NAME=VALUE,… (see the guide).",
            metavar="MIX",
            alone="plain",
        ),
    ] = None
    seed: shared.Seed = None
    size: Annotated[
        int | None, Option("Synthesise messages until the commit log has this size.", kind="size")
    ] = None
    messages: Annotated[int | None, Option("Synthesise this number of messages.", metavar="N", least=0)] = (
        None
    )
    start_time: Annotated[
        int,
        Option(
            "Store time of the first message, if it has none of its own.",
            kind="time",
            typed_default="2024-01-01",
            shows_default=True,
        ),
    ] = 1_704_067_200_000
    manifest_level: Annotated[
        Literal["none", "brief", "hashes", "full"],
        Option(
            "Manifest next to the store: queues, offsets and CRCs of all files; also SHA-256; also every "
            "message.",
            names=("--manifest",),
            shows_default=True,
        ),
    ] = "brief"
    manifest_file: Annotated[
        Path | None,
        Option("File of the manifest; default: NAME.manifest.json next to the store.", kind=WRITE_FILE),
    ] = None
    shape: StoreShape = field(default_factory=StoreShape)


def write(command: WriteCommand) -> MadeStore:
    """Write a store. Raises UsageError, StoreError."""
    from rocketfsck.writer.input.rows import open_messages
    from rocketfsck.writer.manifest import ManifestLevel
    from rocketfsck.writer.synth import parse_mix, synthesize
    from rocketfsck.writer.writing import fill_from, make_store

    source = command.input_path
    if (source is None) == (command.synth is None):
        raise UsageError("give either INPUT or --synth")
    if source is not None:
        limit_to(source)
    options, level = command.shape.options(), ManifestLevel(command.manifest_level)
    if source is None:
        assert command.synth is not None
        return synthesize(
            command.into,
            parse_mix(command.synth),
            options,
            seed=command.seed or 0,
            size=command.size,
            message_count=command.messages,
            start_time=command.start_time,
            manifest=level,
            manifest_path=command.manifest_file,
        )
    if command.seed is not None or command.size is not None or command.messages is not None:
        raise UsageError("--seed, --size and --messages are for --synth")
    with open_messages(source, command.start_time) as messages:
        return make_store(
            command.into,
            fill_from(messages),
            options,
            {"input": source.name},
            manifest=level,
            manifest_path=command.manifest_file,
        )


@dataclass(frozen=True, slots=True)
class DamageCommand:
    """Which store is damaged, where the copy goes, and by which faults."""

    path: Annotated[Path | None, Argument(metavar="STORE", kind=PathKind(local="a copy to damage"))] = None
    into: shared.IntoOrNone = None
    faults: Annotated[
        tuple[str, ...],
        Option("Fault to cause; repeatable.", names=("--fault",), metavar="NAME[:OPTION=VALUE,...]"),
    ] = ()
    seed: shared.Seed = None
    in_place: Annotated[bool, Option("Damage STORE itself, not a copy. Nothing can undo this.")] = False
    broker_version: shared.BrokerVersion = None
    broker_conf: shared.BrokerConf = None


def damage(options: DamageCommand) -> DamageReport:
    """Damage a copy of the store, or the store itself. Raises UsageError, StoreError."""
    from rocketfsck.writer.damage import damage_store

    if options.path is None:
        raise UsageError("a store to damage is missing")
    return damage_store(
        options.path,
        options.into,
        options.faults,
        options.seed or 0,
        version=options.broker_version,
        broker_conf=options.broker_conf,
        in_place=options.in_place,
    )


SOUND, TASKS, STORE = "sound", "tasks.txt", "store"
VERSION = "5.3.3"
MESSAGE_COUNT = 600
Identity = tuple[str, int, int, bytes | None, bytes]
"""What makes a message that message: topic, queueId, queueOffset, body, properties."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """A damage, what has happened in words, and what is wanted. `lost_count` messages are destroyed by it."""

    name: str
    fault: str
    title: str
    task: str
    hint: str
    lost_count: int = 0


EXERCISES = (
    Exercise(
        "1-missing-queue",
        "missing-queue",
        "Somebody deleted a consume queue",
        "A consumer gets nothing from one queue. Find out which queue it is and how many messages consumers "
        "miss. Then give them these messages.",
        "check names the queue and the repair; fix carries it out.",
    ),
    Exercise(
        "2-renamed-file",
        "segment-renamed",
        "The broker does not start",
        "Somebody renamed a commit log file to keep it. Find out what a broker says when it starts on this "
        "store. Then make the store one that a broker starts on, with all its messages.",
        "simulate predicts the start; a commit log file has the name of the offset of its first record.",
    ),
    Exercise(
        "3-power-loss",
        "torn-tail",
        "The last record reached the disk in part",
        "The power failed while a message was written. That message is destroyed. Find out its topic. Then "
        "repair the store so that it keeps every other message.",
        "check --lost lists lost messages; fix says what it cuts before it asks.",
        lost_count=1,
    ),
    Exercise(
        "4-endless-chain",
        "chain-cycle",
        "A query by key never ends",
        "Since a crash, one thread of the broker runs at 100 % whenever somebody asks for a key. No message "
        "is lost. Find the index file that has the circle, and repair it.",
        "check names the file; dump shows the entries of an index file.",
    ),
    Exercise(
        "5-overwritten-record",
        "boundary-lost",
        "A record is overwritten, and a replica has it",
        "Some bytes of a record are overwritten. fix puts a filler message there, because the store alone "
        "does not have the bytes. The replica ../sound does: get the message back from it.",
        "compare --heal writes a plan for apply. If you used fix, undo takes it back.",
    ),
)
"""The exercises in their order."""


@dataclass(frozen=True, slots=True)
class LearnCommand:
    """Where the exercises are made, or looked at."""

    directory: Annotated[
        Path, Argument(metavar="DIR", kind=PathKind(local="where exercises are", written=True))
    ]
    verify: Annotated[bool, Option("Say which exercises in DIR are solved; change nothing.")] = False
    seed: shared.Seed = None


@dataclass(frozen=True, slots=True)
class ExerciseState:
    """An exercise: its store, what to do, and whether that is done; `problem` is what is left to do."""

    name: str
    title: str
    store: str
    text: str
    state: Literal["open", "solved"] = "open"
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LearnAnswer:
    """The exercises of a directory; the states are known after `--verify`."""

    schema_version: int
    kind: Literal["rocketfsck.learn"]
    directory: str
    solved_count: int
    exercises: tuple[ExerciseState, ...]

    @property
    def exit_code(self) -> int:
        """4: an exercise was looked at and is not solved."""
        return EXIT_PROBLEMS if any(one.problem is not None for one in self.exercises) else EXIT_CLEAN


def learn(command: LearnCommand) -> LearnAnswer:
    """Make the exercises, or say which are solved.

    Raises UsageError for a directory that is there already, or that has no exercises, and StoreError.
    """
    if command.verify:
        if command.seed is not None:
            raise UsageError("--seed is for new exercises, --verify for those that are there")
        return _verified(command.directory)
    return _made(command.directory, command.seed or 0)


def _made(directory: Path, seed: int) -> LearnAnswer:
    from rocketfsck.store.circumstances import Geometry
    from rocketfsck.store.reading import named_errors
    from rocketfsck.writer.damage import damage_store
    from rocketfsck.writer.disk.publish import building_directory
    from rocketfsck.writer.manifest import ManifestLevel
    from rocketfsck.writer.options import WriteOptions
    from rocketfsck.writer.synth import parse_mix, synthesize

    if directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} exists; give a new directory, or --verify to see what is solved")
    geometry = Geometry(
        commitlog_file_size=128 << 10, consumequeue_file_size=4000, slot_count=100, entry_count=400
    )
    options = WriteOptions(version=VERSION, geometry=geometry, sync=False)
    target = directory.absolute()
    building = building_directory(target, replace=False, sync=False)
    with named_errors(target, "making exercises"), building as new:
        sound = new / SOUND
        synthesize(
            sound,
            parse_mix("plain"),
            options,
            seed=seed,
            message_count=MESSAGE_COUNT,
            manifest=ManifestLevel.NONE,
        )
        for exercise in EXERCISES:
            place = new / exercise.name
            place.mkdir()
            damage_store(sound, place / STORE, [exercise.fault], seed, version=VERSION, write_truth=False)
        write_text(new / TASKS, tasks_text())
    return _answer(directory, [_state(directory, one, None, solved=False) for one in EXERCISES])


def tasks_text() -> str:
    """The texts of all exercises, as `tasks.txt` has them."""
    import textwrap

    pieces = []
    for one in EXERCISES:
        pieces += [one.name, f"{one.title}.", one.task, f"Hint: {one.hint}", ""]
    pieces.append("To see what is solved: rocketfsck learn DIR --verify")
    return "\n".join("\n".join(textwrap.wrap(piece, 100)) for piece in pieces) + "\n"


def _state(directory: Path, exercise: Exercise, problem: str | None, *, solved: bool) -> ExerciseState:
    return ExerciseState(
        name=exercise.name,
        title=exercise.title,
        store=str(directory / exercise.name / STORE),
        text=exercise.task,
        state="solved" if solved else "open",
        problem=problem,
    )


def _answer(directory: Path, states: list[ExerciseState]) -> LearnAnswer:
    solved = sum(one.state == "solved" for one in states)
    return LearnAnswer(1, "rocketfsck.learn", str(directory), solved, tuple(states))


def _verified(directory: Path) -> LearnAnswer:
    from rocketfsck.store.opening import open_store

    sound = directory / SOUND
    if not sound.is_dir():
        raise UsageError(f"{directory} has no exercises; `rocketfsck learn {directory}` makes them")
    wanted = _identities(open_store(sound, version=VERSION))
    if wanted.total() != MESSAGE_COUNT or _findings(sound):
        raise StoreError("the sound store is changed; make the exercises again elsewhere", path=str(sound))
    states = []
    for exercise in EXERCISES:
        problem = _problem(directory / exercise.name / STORE, exercise, wanted)
        states.append(_state(directory, exercise, problem, solved=problem is None))
    return _answer(directory, states)


def _problem(root: Path, exercise: Exercise, wanted: Counter[Identity]) -> str | None:
    """What is left to do, None where the exercise is solved."""
    from rocketfsck.store.opening import open_store

    if not root.is_dir():
        return "the store is missing"
    try:
        found = _findings(root)
        if found:
            return f"a check finds {count_of(found, 'problem')}"
        lost = (wanted - _identities(open_store(root, version=VERSION))).total()
    except StoreError as error:  # whatever became of one exercise, the others have their answers
        return f"the store cannot be read: {error}"
    if lost > exercise.lost_count:
        return f"the check is clean, but the store lacks {count_of(lost, 'message')} that the damage left"
    return None


def _findings(root: Path) -> int:
    """The findings above a note, and the starts that fail or lose something."""
    from rocketfsck.commands.check import CheckCommand, check
    from rocketfsck.verify.finding import Severity

    answer = check(CheckCommand((root,), stated=shared.StoreOptions(broker_version=VERSION)))
    counts = answer.report.severity_counts
    above = sum(count for severity, count in counts.items() if severity > Severity.INFO)
    return above or int(answer.exit_code != EXIT_CLEAN)


def _identities(store: Store) -> Counter[Identity]:
    from rocketfsck.api import iter_messages

    return Counter(
        (one.topic, one.queue_id, one.queue_offset, one.body, one.properties_bytes)
        for one in iter_messages(store, live_only=True)
    )
