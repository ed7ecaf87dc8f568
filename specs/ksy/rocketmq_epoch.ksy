meta:
  id: rocketmq_epoch
  title: Apache RocketMQ epoch checkpoint file (controller mode)
  application: Apache RocketMQ
  license: Apache-2.0
  encoding: ASCII
  endian: be
doc: |
  Text. The number of entries, the CRC-32 of all bytes after the second line with the top bit cleared
  (0: not to be checked), then one line `epoch-startOffset` for each entry. An entry ends where the next
  begins.
seq:
  - id: num_entries_text
    type: str
    terminator: 0x0a
  - id: crc_text
    type: str
    terminator: 0x0a
  - id: entries
    type: entry
    repeat: eos
instances:
  num_entries:
    value: num_entries_text.to_i
  crc:
    value: crc_text.to_i
types:
  entry:
    seq:
      - id: epoch_text
        type: str
        terminator: 0x2d
      - id: start_offset_text
        type: str
        terminator: 0x0a
        eos-error: false
    instances:
      epoch:
        value: epoch_text.to_i
      start_offset:
        value: start_offset_text.to_i
