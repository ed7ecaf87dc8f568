meta:
  id: rocketmq_timerlog
  title: Apache RocketMQ timer log file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Units of 52 bytes. Where the next one does not fit, 16 bytes (what is left, 0, the BLANK magic) end the
  file. The walk ends at whatever is not a unit.
seq:
  - id: frames
    type: frame
    repeat: until
    repeat-until: _.is_last or _io.eof
  - id: tail
    size-eos: true
types:
  frame:
    seq:
      - id: start
        size: 0
        if: start_pos >= 0
      - id: unit
        type: unit
        if: kind == kind::unit
      - id: blank
        type: blank
        if: kind == kind::blank
    instances:
      start_pos:
        value: _io.pos
      available_size:
        value: _io.size - start_pos
      size:
        pos: start_pos
        type: s4
        if: available_size >= 16
      magic:
        pos: start_pos + 12
        type: s4
        if: available_size >= 16
      kind:
        value: >-
          available_size < 16 ? kind::cut :
          magic == -875286124 ? kind::blank :
          (size == 52 and available_size >= 52) ? kind::unit :
          (size == 0 and magic == 0) ? kind::unwritten :
          kind::misframed
        enum: kind
      is_last:
        value: kind != kind::unit
    enums:
      kind:
        0: unit
        1: blank
        2: unwritten
        3: cut
        4: misframed
  unit:
    seq:
      - id: size
        type: s4
        valid: 52
      - id: prev_pos
        type: s8
        doc: Offset of the previous unit of the same slot, -1 if there is none.
      - id: magic
        type: s4
        doc: Bits 1 default, 2 roll, 4 delete.
      - id: curr_write_time
        type: s8
      - id: delayed_time
        type: s4
        doc: Milliseconds from `curr_write_time` to the delivery.
      - id: offset_py
        type: s8
        doc: Physical offset of the record in the commit log.
      - id: size_py
        type: s4
        doc: totalSize of the record.
      - id: hash_code_of_real_topic
        type: s4
      - id: reserved_value
        type: s8
    instances:
      is_magic_valid:
        value: (magic | 0xf) == 0xf
  blank:
    seq:
      - id: size
        type: s4
      - id: prev_pos
        type: s8
      - id: magic
        type: s4
        valid: -875286124
