meta:
  id: rocketmq_message_id
  title: Apache RocketMQ message ids
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  The bytes behind the two kinds of id that are shown in upper-case hexadecimal. Both have 16 bytes (IPv4)
  or 28 (IPv6): which of the two an id is cannot be told from it.
seq:
  - id: start
    size: 0
    valid:
      expr: _io.size == 16 or _io.size == 28
instances:
  address_size:
    value: '_io.size == 16 ? 4 : 16'
  as_offset_id:
    pos: 0
    type: offset_id(address_size)
  as_unique_id:
    pos: 0
    type: unique_id(address_size)
types:
  offset_id:
    params:
      - id: address_size
        type: u4
    seq:
      - id: address
        size: address_size
      - id: port
        type: s4
      - id: physical_offset
        type: s8
  unique_id:
    params:
      - id: address_size
        type: u4
    seq:
      - id: address
        size: address_size
      - id: pid
        type: u2
      - id: loader_hash
        type: u4
      - id: time_span
        type: u4
        doc: |
          Milliseconds since the first of the month, midnight, in the producer's time zone. Which month
          and which zone cannot be told from the id.
      - id: counter
        type: u2
