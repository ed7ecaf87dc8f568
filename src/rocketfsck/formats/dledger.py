"""DLedger's log, which replaces the commitlog: entries and their index. Reference 2.14.

    data file  := entry* [-1 remaining zero*]
    entry      := magic size index term pos channel chainCrc bodyCrc bodyLen body
    index file := index unit*

The body of a normal entry (magic 1) is a commitlog record whose physicalOffset is pos + 48.
"""

from __future__ import annotations

from rocketfsck.formats.layout import I32, I64, Layout, declare, field

MAGIC_NORMAL = 1
MAGIC_NOOP = 2
MAGIC_CONFIG_CHANGE = 3
MAGIC_BLANK = -1

DLEDGER_ENTRY: Layout = declare(
    "dledger_entry",
    "DLedger entry header",
    "2.14",
    field("magic", I32, "", "1 normal, 2 no-op, 3 config change, -1 blank"),
    field("size", I32, "bytes", "48 + bodyLen; of a blank: what remains of the file"),
    field("index", I64, "entries", "number of the entry"),
    field("term", I64, "", "Raft term"),
    field("pos", I64, "bytes", "offset of this header in the log"),
    field("channel", I32, "", "DLedger's own"),
    field("chainCrc", I32, "", "DLedger's own"),
    field("bodyCrc", I32, "", "CRC of the body"),
    field("bodyLen", I32, "bytes", "size of the body, which follows"),
)
DLEDGER_BLANK: Layout = declare(
    "dledger_blank",
    "End of a DLedger data file",
    "2.14",
    field("magic", I32, "", "-1"),
    field("size", I32, "bytes", "from here to the end of the file; the rest is zero"),
)
DLEDGER_INDEX: Layout = declare(
    "dledger_index",
    "DLedger index unit",
    "2.14",
    field("magic", I32, "", "the entry's magic"),
    field("pos", I64, "bytes", "offset of the entry in the log"),
    field("size", I32, "bytes", "the entry's size"),
    field("index", I64, "entries", "number of the entry"),
    field("term", I64, "", "Raft term"),
)
ENTRY_HEADER_SIZE = DLEDGER_ENTRY.size
INDEX_UNIT_SIZE = DLEDGER_INDEX.size
DEFAULT_DATA_FILE_SIZE = 1 << 30
DEFAULT_INDEX_FILE_SIZE = 5 * 1024 * 1024 * INDEX_UNIT_SIZE
