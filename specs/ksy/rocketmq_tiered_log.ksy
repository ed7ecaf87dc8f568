meta:
  id: rocketmq_tiered_log
  title: End of a log segment of Apache RocketMQ's tiered storage
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  A log segment of tiered storage is commit log records one after the other (rocketmq_commitlog), whose
  physicalOffset is their place in the log of their own queue. Brokers from 5.1.0 to 5.2.0 end a full segment
  with this coda; a queue segment is 20-byte units (rocketmq_consumequeue).
seq:
  - id: size
    type: s4
  - id: magic_code
    type: s4
    valid: -875286124
  - id: max_store_timestamp
    type: s8
