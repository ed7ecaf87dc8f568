meta:
  id: rocketmq_commitlog
  title: Apache RocketMQ commit log file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
  imports:
    - rocketmq_blank
    - rocketmq_record
doc: |
  A segment of the commit log: records one after the other without padding, then an end-of-file record
  (BLANK) if the log went on in another file, or bytes that were never written (zero).

  The walk goes from frame to frame by `total_size`, as a broker does, and ends at the first frame that is
  not a record. A record's content is decoded when it is asked for: a malformed one fails alone.
seq:
  - id: frames
    type: frame
    repeat: until
    repeat-until: _.is_last or _io.eof
  - id: tail
    size-eos: true
    doc: What follows the frame that ended the walk.
types:
  frame:
    seq:
      - id: start
        size: 0
        if: start_pos >= 0
        doc: Takes no bytes; fixes `start_pos` before anything is read.
      - id: raw_record
        size: total_size
        if: kind == kind::record
      - id: blank
        type: rocketmq_blank
        if: kind == kind::blank
    instances:
      start_pos:
        value: _io.pos
      available_size:
        value: _io.size - start_pos
      total_size:
        pos: start_pos
        type: s4
        if: available_size >= 8
      magic_code:
        pos: start_pos + 4
        type: s4
        if: available_size >= 8
      is_framed:
        value: total_size >= 91 and total_size <= available_size
      kind:
        value: >-
          available_size < 8 ? kind::cut :
          magic_code == -875286124 ? kind::blank :
          (magic_code == -626843481 or magic_code == -626843477) ? (is_framed ? kind::record : kind::misframed) :
          (total_size == 0 and magic_code == 0) ? kind::unwritten :
          kind::illegal_magic
        enum: kind
      is_last:
        value: kind != kind::record
      record:
        pos: start_pos
        size: total_size
        type: rocketmq_record
        if: kind == kind::record
    enums:
      kind:
        0:
          id: record
        1:
          id: blank
        2:
          id: unwritten
          doc: Size and magic are zero, the normal end of the file that is being written.
        3:
          id: cut
          doc: Fewer than 8 bytes are left.
        4:
          id: misframed
          doc: A record's magic with a size that is too small or reaches beyond the file.
        5:
          id: illegal_magic
