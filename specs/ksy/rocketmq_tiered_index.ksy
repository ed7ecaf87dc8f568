meta:
  id: rocketmq_tiered_index
  title: Index file of Apache RocketMQ's tiered storage
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  The header says whether the file is still written (begin magic) or complete (end magic). Slots and items that
  follow depend on configuration and form; their types are here to be applied to a position.
seq:
  - id: header
    type: header
  - id: content
    size-eos: true
types:
  header:
    seq:
      - id: magic_code
        type: s4
      - id: begin_timestamp
        type: s8
      - id: end_timestamp
        type: s8
      - id: slot_count
        type: s4
      - id: index_count
        type: s4
  item:
    seq:
      - id: fields
        type: compacted_item
      - id: prev_item
        type: s4
  compacted_item:
    seq:
      - id: hash
        type: s4
      - id: topic_id
        type: s4
      - id: queue_id
        type: s4
      - id: offset
        type: s8
      - id: size
        type: s4
      - id: time_diff
        type: s4
  slot:
    seq:
      - id: newest_item
        type: s4
      - id: unused
        type: s4
  compacted_slot:
    seq:
      - id: position
        type: s4
      - id: length
        type: s4
