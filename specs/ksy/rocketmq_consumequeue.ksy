meta:
  id: rocketmq_consumequeue
  title: Apache RocketMQ consume queue file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  An array of 20-byte units. The unit at byte `b` of the queue's stream (the number in the file's name is
  the first) has the queue offset `b / 20`. Units that were never written are zero.
seq:
  - id: units
    type: unit
    repeat: expr
    repeat-expr: _io.size / 20
  - id: tail
    size-eos: true
    doc: Empty unless the file was cut inside a unit.
types:
  unit:
    seq:
      - id: offset
        type: s8
        doc: Physical offset of the record.
      - id: size
        type: s4
        doc: totalSize of the record.
      - id: tags_code
        type: s8
        doc: Hash of the tags, delivery time of a delayed message, or address in the extension file.
    instances:
      is_valid:
        value: offset >= 0 and size > 0
        doc: What a broker's recovery asks of a unit.
      is_pre_blank:
        value: offset == 0 and size == 0x7fffffff and tags_code == 0
        doc: Filler before the first message of a queue that does not start at 0.
      is_ext_address:
        value: tags_code <= -2147483649
      ext_offset:
        value: (tags_code + 9223372036854775807) + 1
        if: is_ext_address
        doc: Offset in the stream of consumequeue_ext.
