meta:
  id: rocketmq_indexfile
  title: Apache RocketMQ index file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  A hash table with chains: header, slots, entries. The numbers of slots and entries are configuration
  (5,000,000 and 20,000,000 by default) and stand nowhere in the file; its length must be
  `40 + 4 * slot_count + 20 * entry_count`. A slot holds the number of the newest entry of its chain and
  each entry the number of the one before; 0 is none, and entry 0 is never used.
params:
  - id: slot_count
    type: u4
  - id: entry_count
    type: u4
seq:
  - id: start
    size: 0
    valid:
      expr: _io.size == 40 + 4 * slot_count + 20 * entry_count
  - id: header
    type: header
  - id: slots
    type: s4
    repeat: expr
    repeat-expr: slot_count
  - id: entries
    type: entry
    repeat: expr
    repeat-expr: entry_count
types:
  header:
    seq:
      - id: begin_timestamp
        type: s8
        doc: storeTimestamp of the first message indexed (or inherited, while there is none).
      - id: end_timestamp
        type: s8
        doc: storeTimestamp of the last message indexed.
      - id: begin_phy_offset
        type: s8
      - id: end_phy_offset
        type: s8
      - id: hash_slot_count
        type: s4
        doc: Slots in use, or entries put, by the broker's version.
      - id: index_count
        type: s4
        doc: Number of the next entry; 0 or 1 where there are none.
    instances:
      used_entry_count:
        value: 'index_count > 1 ? index_count - 1 : 0'
  entry:
    seq:
      - id: key_hash
        type: s4
      - id: phy_offset
        type: s8
      - id: time_diff
        type: s4
        doc: Seconds since the header's begin timestamp, as it was when this was put.
      - id: prev_index
        type: s4
