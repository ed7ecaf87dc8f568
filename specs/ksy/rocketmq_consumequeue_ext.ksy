meta:
  id: rocketmq_consumequeue_ext
  title: Apache RocketMQ consume queue extension file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Units of variable size, one after the other. A size of -1 ends the file; a size of 0 is where nothing
  was written yet. The walk ends at whatever is not a unit; a unit is decoded when it is asked for.
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
      - id: raw_unit
        size: unit_size
        if: kind == kind::unit
      - id: end_mark
        type: s2
        if: kind == kind::end_of_file
    instances:
      start_pos:
        value: _io.pos
      available_size:
        value: _io.size - start_pos
      unit_size:
        pos: start_pos
        type: s2
        if: available_size >= 2
      kind:
        value: >-
          available_size < 2 ? kind::cut :
          unit_size == -1 ? kind::end_of_file :
          unit_size == 0 ? kind::unwritten :
          (unit_size >= 20 and unit_size <= available_size) ? kind::unit :
          kind::misframed
        enum: kind
      is_last:
        value: kind != kind::unit
      unit:
        pos: start_pos
        size: unit_size
        type: unit
        if: kind == kind::unit
    enums:
      kind:
        0: unit
        1: end_of_file
        2: unwritten
        3: cut
        4: misframed
  unit:
    seq:
      - id: size
        type: s2
        valid:
          min: 20
      - id: tags_code
        type: s8
      - id: msg_store_time
        type: s8
        doc: storeTimestamp of the message, milliseconds since the epoch.
      - id: bit_map_size
        type: s2
        valid:
          expr: bit_map_size >= 0 and bit_map_size == size - 20
      - id: filter_bit_map
        size: bit_map_size
