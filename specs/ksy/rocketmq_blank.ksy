meta:
  id: rocketmq_blank
  title: End-of-file record of an Apache RocketMQ commit log file
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  Written where the next record plus 8 bytes would not fit. `total_size` is what was left of the file,
  these 8 bytes included; readers go to the next file whatever it says. The bytes that follow, up to the
  end of the file, mean nothing.
seq:
  - id: total_size
    type: s4
  - id: magic_code
    type: s4
    valid: -875286124
    doc: 0xCBD43194.
