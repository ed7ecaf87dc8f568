"""What pyspark finds by this package's name: the data source `rocketmq`."""
