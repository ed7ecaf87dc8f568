"""What pyspark finds by this package's name: the data source `rocketmq`."""

from rocketfsck.pipeline.datasource import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
