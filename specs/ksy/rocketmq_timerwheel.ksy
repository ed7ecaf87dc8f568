meta:
  id: rocketmq_timerwheel
  title: Apache RocketMQ timer wheel
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Slots of 32 bytes, two weeks of them: 2 * 7 * 24 * 3600 slots whatever the precision. The slot of a time
  `t` has the number `(t / precision) % slots`; it holds that time's chain only if `slot_time` says so.
seq:
  - id: slots
    type: slot
    repeat: expr
    repeat-expr: _io.size / 32
  - id: tail
    size-eos: true
types:
  slot:
    seq:
      - id: slot_time
        type: s8
        doc: Time in units of the precision.
      - id: first_pos
        type: s8
        doc: Offset in the timer log of the first unit, -1 if there is none.
      - id: last_pos
        type: s8
        doc: Offset in the timer log of the newest unit, the head of the chain.
      - id: num
        type: s4
        doc: Number of units.
      - id: magic
        type: s4
        doc: Magic of the newest unit.
