meta:
  id: rocketmq_properties
  title: Property area of an Apache RocketMQ message
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  `name 0x01 value 0x02` repeated, without escaping; whether the last 0x02 is present depends on the
  dialect. Names and values are left as bytes: nothing guarantees that they are valid UTF-8.

  Two parsers exist in brokers. The newer one ("scan") takes a segment whose name and value are both
  non-empty, and lets the value contain further 0x01. The older one ("split") cuts a segment at every
  0x01, drops empty pieces from its end and takes it if exactly two pieces are left.
seq:
  - id: segments
    type: segment
    terminator: 0x02
    eos-error: false
    repeat: eos
types:
  segment:
    seq:
      - id: name
        terminator: 0x01
        eos-error: false
      - id: value
        size-eos: true
    instances:
      has_separator:
        value: _io.size > name.length
        doc: False where no 0x01 is in the segment (then all of it was read as the name).
      is_pair_by_scan:
        value: has_separator and name.length > 0 and value.length > 0
      pieces:
        pos: 0
        terminator: 0x01
        eos-error: false
        repeat: eos
        doc: What the split parser sees, empty pieces at the end included.
