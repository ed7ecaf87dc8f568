meta:
  id: rocketmq_rocksdb_rows
  title: Values of Apache RocketMQ's timers, transactions and configs in RocksDB
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Not a file: values of the column families `timer` and `trans` of `rocksdbstore/`, keys of both and of `popState` in
  `kvStore/`, and keys and the data version of `config/rdb`.
types:
  timer_value:
    seq:
      - id: size
        type: s4
      - id: phy_offset
        type: s8
  trans_value:
    seq:
      - id: check_count
        type: s4
      - id: size
        type: s4
  data_version:
    seq:
      - id: state_version
        type: s8
      - id: timestamp
        type: s8
      - id: counter
        type: s8
  timer_key:
    seq:
      - id: deliver_time
        type: s8
      - id: unique_key
        size-eos: true
  name:
    seq:
      - id: len_name
        type: s2
        valid:
          min: 0
      - id: name
        size: len_name
  offset_key:
    seq:
      - id: table_prefix
        contents: [0x01]
      - id: table
        type: s2
        valid:
          min: 1
          max: 2
      - id: record_prefix
        contents: [0x02]
      - id: group
        type: name
      - id: group_end
        contents: [0x01]
      - id: topic
        type: name
      - id: topic_end
        contents: [0x01]
      - id: queue_id
        type: s4
      - id: key_end
        size: 0
        valid:
          expr: _io.eof
