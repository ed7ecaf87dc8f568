"""Predicts what a start of a broker would do to a store, without a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import AsBroker, StoreOptions, StorePlace
from rocketfsck.common.options import Option
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, StoreError

if TYPE_CHECKING:
    from rocketfsck.query.start.model import Start
    from rocketfsck.query.start.verdict import Prediction
    from rocketfsck.store import Store


@dataclass(frozen=True, slots=True)
class SimulateCommand:
    """Whose start on which store is predicted, and whether the log is read for what comes out of reach."""

    store_path: StorePlace
    as_broker: AsBroker = None
    losses: Annotated[
        bool,
        Option(
            "Look for messages that come out of reach: reads the whole commit log once.",
            names=("--losses/--no-losses",),
            shows_default=True,
        ),
    ] = True
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True)
class SimulateAnswer:
    """What is predicted, for each class of versions that start alike."""

    store: Store
    predictions: Sequence[Prediction]

    @property
    def starts(self) -> list[Start]:
        """The starts that could be predicted."""
        return [item.start for item in self.predictions if item.start is not None]

    @property
    def harmful(self) -> bool:
        """Whether a start fails or loses something."""
        return any(start.harmful for start in self.starts)

    @property
    def uncovered(self) -> StoreError | None:
        """Why there is no prediction for some versions; None where there is one for all."""
        return next((item.error for item in self.predictions if item.error is not None), None)

    @property
    def exit_code(self) -> int:
        code = EXIT_PROBLEMS if self.harmful else EXIT_CLEAN
        return code | (EXIT_CLEAN if self.uncovered is None else EXIT_OPERATIONAL)


def simulate(options: SimulateCommand) -> SimulateAnswer:
    """Predict the starts. Raises UsageError for what is not a version, StoreError for what cannot be read."""
    from rocketfsck.query.start.verdict import predict_each, start_classes, versions_of

    # opened as what wrote the store, whichever broker is to start on it
    store = options.stated.open("simulate", options.store_path)
    if options.as_broker is None:
        classes = start_classes(versions_of(store))
    else:
        from rocketfsck.formats.dialect import dialect_for

        classes = [(dialect_for(options.as_broker).version,)]
    return SimulateAnswer(store, predict_each(store, classes, losses=options.losses))
