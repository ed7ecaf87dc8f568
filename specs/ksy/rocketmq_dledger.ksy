meta:
  id: rocketmq_dledger
  title: DLedger data file of Apache RocketMQ
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Entries one after the other: a header of 48 bytes and a body, which for a normal entry is a commit log
  record. A magic of -1 with the number of bytes left ends the file.
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
      - id: raw_entry
        size: size
        if: kind == kind::entry
      - id: blank
        type: blank
        if: kind == kind::blank
    instances:
      start_pos:
        value: _io.pos
      available_size:
        value: _io.size - start_pos
      magic:
        pos: start_pos
        type: s4
        if: available_size >= 8
      size:
        pos: start_pos + 4
        type: s4
        if: available_size >= 8
      is_framed:
        value: size >= 48 and size <= available_size
      kind:
        value: >-
          available_size < 8 ? kind::cut :
          magic == -1 ? kind::blank :
          (magic >= 1 and magic <= 3) ? (is_framed ? kind::entry : kind::misframed) :
          (magic == 0 and size == 0) ? kind::unwritten :
          kind::illegal_magic
        enum: kind
      is_last:
        value: kind != kind::entry
      entry:
        pos: start_pos
        size: size
        type: entry
        if: kind == kind::entry
    enums:
      kind:
        0: entry
        1: blank
        2: unwritten
        3: cut
        4: misframed
        5: illegal_magic
  entry:
    seq:
      - id: magic
        type: s4
        doc: 1 normal, 2 no-op, 3 change of configuration.
      - id: size
        type: s4
        doc: Header and body.
      - id: index
        type: s8
      - id: term
        type: s8
      - id: pos
        type: s8
        doc: Offset of this header in the log.
      - id: channel
        type: s4
      - id: chain_crc
        type: s4
      - id: body_crc
        type: s4
      - id: body_len
        type: s4
        valid:
          expr: body_len >= 0 and size == 48 + body_len
      - id: body
        size: body_len
  blank:
    seq:
      - id: magic
        type: s4
        valid: -1
      - id: size
        type: s4
