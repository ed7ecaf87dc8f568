meta:
  id: rocketmq_batch_items
  title: Items of an Apache RocketMQ message batch
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
  imports:
    - rocketmq_properties
doc: |
  The body of an inner batch record (sysFlag 0x80), and the form in which a producer sends a batch: items
  one after the other, to the end of the body. Magic and CRC are written as 0.
seq:
  - id: items
    type: item
    repeat: eos
types:
  item:
    seq:
      - id: total_size
        type: s4
        valid:
          min: 22
      - id: magic_code
        type: s4
      - id: body_crc
        type: s4
      - id: flag
        type: s4
      - id: body_length
        type: s4
        valid:
          min: 0
      - id: body
        size: body_length
      - id: properties_length
        type: s2
        valid:
          expr: 'properties_length >= 0 and total_size == 22 + body_length + properties_length'
      - id: properties
        type: rocketmq_properties
        size: properties_length
