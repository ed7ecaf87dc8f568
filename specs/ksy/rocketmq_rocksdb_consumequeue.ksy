meta:
  id: rocketmq_rocksdb_consumequeue
  title: Keys and values of Apache RocketMQ's consume queue in RocksDB
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Not a file: keys and values of the column families `default` (unit_key, unit) and `offset` (bound_key, bound).
types:
  topic_name:
    seq:
      - id: len_topic
        type: s4
        valid:
          min: 0
      - id: separator
        contents: [0x01]
      - id: topic
        size: len_topic
      - id: topic_end
        contents: [0x01]
  unit_key:
    seq:
      - id: name
        type: topic_name
      - id: queue_id
        type: s4
      - id: queue_id_end
        contents: [0x01]
      - id: cq_offset
        type: s8
      - id: key_end
        size: 0
        valid:
          expr: _io.eof
  bound_key:
    seq:
      - id: name
        type: topic_name
      - id: bound
        size: 3
        valid:
          any-of:
            - '[0x6d, 0x61, 0x78]'
            - '[0x6d, 0x69, 0x6e]'
      - id: bound_end
        contents: [0x01]
      - id: queue_id
        type: s4
      - id: key_end
        size: 0
        valid:
          expr: _io.eof
  unit:
    seq:
      - id: phy_offset
        type: s8
      - id: size
        type: s4
      - id: tags_code
        type: s8
      - id: store_time
        type: s8
  bound:
    seq:
      - id: phy_offset
        type: s8
      - id: cq_offset
        type: s8
