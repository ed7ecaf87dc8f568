meta:
  id: rocketmq_rocksdb_rows
  title: Values of Apache RocketMQ's timers, transactions and configs in RocksDB
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Not a file: values of the column families `timer` and `trans` of `rocksdbstore/`, keys of both, of its index (the default
  family) and of `popState` in `kvStore/`, and keys and the data version of `config/rdb`.
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
  trans_key:
    seq:
      - id: phy_offset
        type: s8
      - id: topic_mark
        contents: '@'
      - id: topic
        terminator: 0x40
      - id: unique_key
        terminator: 0x40
        consume: false
        eos-error: false
      - id: key_end
        size: 0
        valid:
          expr: _io.eof
  index_key:
    seq:
      - id: hour
        type: s8
        doc: The store time in milliseconds, with its minutes cut off.
      - id: topic_mark
        contents: '@'
      - id: names
        size: _io.size - 18
        type: index_names
      - id: offset_mark
        contents: '@'
      - id: phy_offset
        type: s8
  index_names:
    seq:
      - id: topic
        terminator: 0x40
        eos-error: false
      - id: kind
        terminator: 0x40
        eos-error: false
        valid:
          any-of:
            - '[0x4b]'
            - '[0x54]'
            - '[0x55]'
        doc: K for a key, T for the tags, U for neither.
      - id: texts
        size-eos: true
        doc: The text, `@` and the unique key; for U the unique key alone. A text may hold `@`, a unique key never does.
    instances:
      text_start:
        pos: _io.size - texts.length
        terminator: 0x40
        if: kind != [0x55]
        doc: The text up to its first `@`; without one the key is malformed.
  pop_key:
    seq:
      - id: visible_time
        type: s8
        doc: Milliseconds since the epoch.
      - id: names
        size: _io.size - 22
        type: pop_names
      - id: queue_id_mark
        contents: '@'
      - id: queue_id
        type: s4
      - id: queue_offset_mark
        contents: '@'
      - id: queue_offset
        type: s8
  pop_names:
    seq:
      - id: group
        terminator: 0x40
      - id: topic
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
