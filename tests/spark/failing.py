"""The data source on a disk that fails once, in a module of its own that workers import."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.pipeline.datasource import Reader, RocketMQDataSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader, InputPartition
    from pyspark.sql.types import StructType


class FailingReader(Reader):
    """The reader of the data source, on a disk that fails at the first read of the first attempt."""

    def __init__(self, reader: Reader, marker: Path) -> None:
        super().__init__(reader.request, reader.schema)
        self.marker = marker

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        real = os.preadv

        def failing(descriptor: int, buffers: Any, pos: int) -> int:
            with suppress(FileExistsError):
                self.marker.touch(exist_ok=False)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(descriptor, buffers, pos)

        os.preadv = failing  # type: ignore[assignment]
        try:
            yield from super().read(partition)
        finally:
            os.preadv = real


class FailingDataSource(RocketMQDataSource):
    """The data source on such a disk; the option `marker` names a file that says that it failed."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq_failing"

    def reader(self, schema: StructType) -> DataSourceReader:
        options = dict(self.options)
        marker = options.pop("marker")
        found = RocketMQDataSource(options).reader(schema)
        assert isinstance(found, Reader)
        return FailingReader(found, Path(marker))

    def schema(self) -> StructType:
        options = dict(self.options)
        options.pop("marker")
        return RocketMQDataSource(options).schema()
