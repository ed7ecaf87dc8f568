"""The data pipeline on Spark: the data source `rocketmq`, and the jobs that outgrow a machine.

    views/       what a row of a store is, and how its parts are read: plain Arrow, without Spark
    datasource   `spark.read.format("rocketmq")` and `spark.readStream`, thin skins over the views
    the jobs     export, rebuild, statistics: kernels for any engine (`rocketfsck.engine`)

Workers get paths and ranges, never bytes; what they write appears by rename, and counts only when the driver
has said so.
"""

from rocketfsck.pipeline.registered import register

__all__ = ["register"]
