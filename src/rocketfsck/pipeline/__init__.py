"""The data pipeline on Spark: the data source `rocketmq`, and the jobs that outgrow a machine.

    views/       what a row of a store is, and how its parts are read: plain Arrow, without Spark
    datasource   `spark.read.format("rocketmq")` and `spark.readStream`, thin skins over the views
    the jobs     export, rebuild, statistics: kernels for any engine (`rocketfsck.engine`)

Workers get paths and ranges, never bytes; what they write appears by rename, and counts only when the driver
has said so.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rocketfsck.errors import UsageError, install_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the data source `rocketmq` known to a session, classic or Connect.

    Needed only where Spark does not find it on its own, by the package `pyspark_rocketmq` on the path of the
    driver's Python (which it is where rocketfsck was installed). Raises UsageError without pyspark, and
    before its version 4.0.
    """
    try:
        from rocketfsck.pipeline.datasource import RocketMQDataSource
    except ImportError as error:
        if find_spec("pyspark") is not None and find_spec("pyspark.sql.datasource") is None:
            raise UsageError(
                f"pyspark {version('pyspark')} has no data sources in Python: use 4.0 or later"
            ) from error
        raise UsageError(f"Spark is not installed: run {install_hint('spark')}") from error
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(RocketMQDataSource)
    except AnalysisException as error:  # pyspark 4.0 refuses what it has found by itself
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
