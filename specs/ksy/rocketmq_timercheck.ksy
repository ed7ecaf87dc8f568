meta:
  id: rocketmq_timercheck
  title: Apache RocketMQ timer checkpoint
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
doc: A page of 4096 bytes in the configuration directory.
seq:
  - id: last_read_time_ms
    type: s8
  - id: last_timer_log_flush_pos
    type: s8
  - id: last_timer_queue_offset
    type: s8
  - id: master_timer_queue_offset
    type: s8
  - id: state_version
    type: s8
  - id: timestamp
    type: s8
  - id: counter
    type: s8
  - id: tail
    size-eos: true
