meta:
  id: rocketmq_dledger_index
  title: DLedger index file of Apache RocketMQ
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: An array of 32-byte units, one for each entry of the data files.
seq:
  - id: units
    type: unit
    repeat: expr
    repeat-expr: _io.size / 32
  - id: tail
    size-eos: true
types:
  unit:
    seq:
      - id: magic
        type: s4
      - id: pos
        type: s8
        doc: Offset of the entry in the data files.
      - id: size
        type: s4
      - id: index
        type: s8
      - id: term
        type: s8
