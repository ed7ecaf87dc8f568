meta:
  id: rocketmq_marker
  title: Marker files of an Apache RocketMQ store
  application: Apache RocketMQ
  license: Apache-2.0
  encoding: ASCII
doc: |
  `abort` (empty, or a process id in decimal) and `lock` (the word "lock"; what counts is the lock that a running
  broker holds on its first byte).
seq:
  - id: content
    size-eos: true
instances:
  is_lock:
    value: content == [0x6c, 0x6f, 0x63, 0x6b]
  pid_text:
    pos: 0
    type: str
    size-eos: true
