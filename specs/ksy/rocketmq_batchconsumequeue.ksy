meta:
  id: rocketmq_batchconsumequeue
  title: Apache RocketMQ batch consume queue file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  An array of 46-byte units, one for a record, which may hold many messages. Queues of the compaction store
  use the same unit and end a file with a unit of (-1, 0, 0, 0, 0, 0, -1, 0).
seq:
  - id: units
    type: unit
    repeat: expr
    repeat-expr: _io.size / 46
  - id: tail
    size-eos: true
types:
  unit:
    seq:
      - id: offset
        type: s8
      - id: size
        type: s4
      - id: tags_code
        type: s8
      - id: store_time
        type: s8
        doc: storeTimestamp of the record, milliseconds since the epoch.
      - id: msg_base_offset
        type: s8
        doc: Queue offset of the first message in the record.
      - id: batch_size
        type: s2
        doc: Number of messages in the record.
      - id: compacted_offset
        type: s4
      - id: reserved
        type: s4
    instances:
      is_valid:
        value: offset >= 0 and size > 0 and msg_base_offset >= 0 and batch_size > 0
      is_compaction_end:
        value: offset == -1 and size == 0 and compacted_offset == -1
