"""The options of a table in Spark's catalog: which of them are ours, and how they get to whoever reads it.

    CREATE TABLE t USING rocketmq OPTIONS (path '/data/store', topic 'T')

hands the data source, under one name each:

    option.topic, topic                            what OPTIONS says, twice
    path, location                                 LOCATION, or the option path, as a URI
    provider, owner, comment, external, a.b …      Spark's own, and the TBLPROPERTIES

A query of the table hands it none of these (Spark 4.0 to 4.3), but the columns of the table with their
comments. So the options are kept there: in the comment of the first column, as in a URL:
`rocketmq path=/data/store&topic=T`.

SHOW CREATE TABLE prints columns with their comments, so that what it prints makes the same table again; but
Spark leaves out USING for a data source in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.columns import OPTION_NAMES, listed_paths
from rocketfsck.store.places.urls import is_remote

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COMMENT = "comment"
"""The key of a column's comment in its metadata."""
KEPT = "rocketmq "
"""How the comment with the options begins."""
_AS_IT_IS = "/:, *"
"""What needs no quoting in an option: no quote and no backslash, which SQL would read otherwise."""

PROVIDER = "provider"
_PREFIX = "option."
_FILE = "file:"
_SECRETS = "storage_options"
_OWN = frozenset(name.lower() for name in OPTION_NAMES)
_STORES = frozenset({"path", "paths", "store"})
_PATHS = ("path", "paths", "store", "broker_conf", "commitlog_paths")


def is_table(options: Mapping[str, str], name: str) -> bool:
    """Whether these are what Spark gives when a table of the source `name` is made."""
    given = {key.lower(): value for key, value in options.items()}
    return given.get(PROVIDER, "").lower() == name and "owner" in given


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Of what Spark gives when a table is made, what OPTIONS and LOCATION say.

    Raises UsageError for an option that was given as a property of the table, for paths that are not whole,
    and for storage options, which everybody could read who may look at the table.
    """
    given = {key.lower(): value for key, value in options.items()}
    found = {key.removeprefix(_PREFIX): value for key, value in given.items() if key.startswith(_PREFIX)}
    location = given.get("path", given.get("location"))
    if location is not None:
        found.setdefault("path", _local(location))
    properties = sorted((set(given) & _OWN) - set(found) - {"path"})
    if properties:
        raise UsageError(f"{', '.join(properties)}: use OPTIONS; rocketfsck does not read TBLPROPERTIES")
    if _SECRETS in found:
        raise UsageError(
            f"a table cannot keep {_SECRETS}, which everybody could read: put credentials in the environment"
        )
    for name in _PATHS:
        for path in listed_paths(name, found.get(name, "")):
            if not is_remote(path) and not Path(path).is_absolute():
                raise UsageError(f"{name}: a table needs an absolute path, and {path} is relative")
    return found


def keep_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options in its comment."""
    from pyspark.sql.types import StructField, StructType

    first, *others = schema.fields
    kept = {**first.metadata, COMMENT: KEPT + urlencode(options, quote_via=quote, safe=_AS_IT_IS)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def kept_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """What a query asks for: its own options, over those that are kept with the columns of its table.

    Options that name a store are used alone: the columns may be those of some other table. Raises UsageError
    where no store was named at all.
    """
    given = {key.lower(): value for key, value in options.items()}
    if _STORES & set(given):
        return given
    for field in schema.fields:
        comment = field.metadata.get(COMMENT, "")
        if comment.startswith(KEPT):
            return {**_read_kept(comment), **given}
    raise UsageError(
        "name a store: load(PATH), or the option path, or store; a table is made without a list of "
        "columns, which Spark would keep instead of its options: choose columns by the option columns"
    )


def _read_kept(comment: str) -> dict[str, str]:
    """The options in a comment. Raises UsageError for another one that begins so."""
    try:
        return dict(parse_qsl(comment.removeprefix(KEPT), keep_blank_values=True, strict_parsing=True))
    except ValueError:
        raise UsageError(f"the comment of a column is not what rocketfsck keeps there: {comment}") from None


def _local(location: str) -> str:
    """The path in a URI of Spark's, such as `file:/data/store`, which is not quoted."""
    if not location.startswith(_FILE):
        return location
    path = location.removeprefix(_FILE)
    return "/" + path.lstrip("/")
