"""Why a finding stays as it is: where no repair answers its rule, or not always."""

from __future__ import annotations

from collections.abc import Mapping

_OWN = "the record is as its producer sent it, or nobody can tell what it was; brokers go on behind it"
_COPY = "only another copy of the store can tell: rocketfsck compare"

IMPOSSIBLE = "no directory can have the topic's name, so that no broker can make a queue for it"
HIDDEN = "a BLANK hides records that the queue may need: plan again once this plan is applied"
NO_FILE = "something that is no file has the name of a file of the queue: move it away and plan again"
NO_TEXT = "the topic's bytes are no text, so that a broker makes a queue of another name for it"

REASONS: Mapping[str, str] = {
    "ST001": "what lies behind the length that it should have is not zero: it may be data",
    "ST010": "what is missing is no whole number of files, or too much: get the files from where they are",
    "ST011": "two segments hold the same offsets, and which one is right is not in the files; " + _COPY,
    "ST012": "both files hold data; " + _COPY,
    "ST013": "segments of another size were mixed in; set mappedFileSizeCommitLog to what wrote them",
    "ST019": "the commit log is somewhere else: mount it before any broker starts",
    "ST020": "queues and commit log are of two stores: find the log that belongs here",
    "ST021": "there is nothing to repair here",
    "ST023": "both kinds of queues hold units, and which one consumers use is the topic's own setting",
    "ST024": "the topic has queues of both kinds",
    "ST042": "what the link leads to is not here: mount it, or remove the link",
    "CL001": "too few bytes to hold a filler record: salvage writes a store without them",
    "CL003": "too few bytes to hold a filler record: salvage writes a store without them",
    "CL004": "no single flipped bit explains it, so body or CRC may be the wrong one; " + _COPY,
    "CL005": "which byte of the record changed is not known; " + _COPY,
    "CL006": "no unit says that the record belongs where it stands: salvage judges it by its content",
    "CL007": _OWN,
    "CL008": _OWN,
    "CL009": _OWN,
    "CL010": _OWN,
    "CL012": "the body is sound; which properties were lost is in no other file",
    "CL013": _OWN,
    "CL014": _OWN,
    "CL015": _OWN,
    "CL016": _OWN,
    "CL020": "no unit leads to what the BLANK hides: it may be left of an earlier life of the log; " + _COPY,
    "CL026": "whether the half message expired or is lost is not in the log",
    "CL027": "the log has two messages for one place in the queue, which can show only one",
    "CL028": "the messages between are not in the log; " + _COPY,
    "CL030": "there is no sound record in the whole log: salvage looks at every byte",
    "CL031": "run a broker of 5.1.0 or later on it",
    "CL034": _OWN,
    "CL035": _OWN,
    "CL036": _OWN,
    "CL037": _OWN,
    "CL038": _OWN,
    "CF001": "neither the file nor a .bak has anything left: write it anew, or copy it from another broker",
    "CF006": "the .bak has another shape than the broker loads",
    "CF007": "there is no .bak of the right shape: write it anew, or copy it from another broker",
    "CF011": "the units that the group consumed are gone: it waits until the queue has grown past",
    "CF014": "where the group was is not known: reset it when the broker runs",
    "CP001": "damage of the log is left that an abnormal recovery would meet, or something that this version "
    "does not know is in the store: leave the recovery to the broker",
    "CP003": "there is no checkpoint to note the index file's end in",
    "XR001": "the log has two messages for this place in the queue",
    "XR004": "the queues are of another log, or not all units behind these point behind the log",
    "XR005": "the log has two messages for this place in the queue",
    "XR006": "the log has two messages for this place in the queue",
    "XR010": "the messages are lost with the bytes that they stood in; " + _COPY,
    "XR011": "the messages are lost with their file; " + _COPY,
    "XR013": "the lists are the record's own: brokers write no further units for it",
    "XR030": "the messages are lost with their file; the entries go when the index is built again",
}
"""By rule id. What is not here has the planner's own words."""
