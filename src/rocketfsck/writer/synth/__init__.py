"""Stores of made-up messages from a seed: same seed, same bytes, on any machine and any number of cores.

`scan.synth.draws` says what a message is, `mix` is what is asked for, `plan` what follows from it. `stories`
tells messages of every kind, which the writer puts one by one; `bulk` makes plain ones by compiled kernels,
with the same bytes. The store does not show which of the two ran.
"""

from __future__ import annotations

from rocketfsck.writer.synth.plan import PRESETS, BodySizes, Mix, parse_mix
from rocketfsck.writer.synth.synthesis import synthesize

__all__ = ["PRESETS", "BodySizes", "Mix", "parse_mix", "synthesize"]
