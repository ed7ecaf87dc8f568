meta:
  id: rocketmq_checkpoint
  title: Apache RocketMQ store checkpoint
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: |
  A page of 4096 bytes. The first three fields exist in all versions, the fourth since 5.0.0, the fifth
  since 5.1.1 and the sixth since 5.5.0; an older broker leaves them as it found them.
seq:
  - id: physic_msg_timestamp
    type: s8
  - id: logics_msg_timestamp
    type: s8
  - id: index_msg_timestamp
    type: s8
  - id: master_flushed_offset
    type: s8
  - id: confirm_phy_offset
    type: s8
  - id: logics_physical_offset
    type: s8
  - id: tail
    size-eos: true
