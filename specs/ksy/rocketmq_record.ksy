meta:
  id: rocketmq_record
  title: Apache RocketMQ commit log record
  application: Apache RocketMQ
  license: Apache-2.0
  endian: be
  imports:
    - rocketmq_properties
doc: |
  One message as a broker stores it, V1 (topic length of one byte) or V2 (two bytes), with hosts of 8
  bytes (IPv4) or 20 (IPv6) each. The record is accepted exactly when its fields fill `total_size` bytes
  to the last one. A negative body or properties length counts as 0, as it does for a broker.

  Not judged here: the CRC of the body, the position that `physical_offset` claims, reserved bits.
seq:
  - id: total_size
    type: s4
    valid:
      min: 91
  - id: magic_code
    type: s4
    valid:
      any-of:
        - -626843481
        - -626843477
    doc: 0xDAA320A7 (V1) or 0xDAA320AB (V2).
  - id: content
    type: content
    size: total_size - 8
instances:
  version:
    value: 'magic_code == -626843477 ? 2 : 1'
types:
  content:
    seq:
      - id: body_crc
        type: s4
        doc: CRC-32 of the stored body with the top bit cleared; 0 for an empty body.
      - id: queue_id
        type: s4
      - id: flag
        type: s4
        doc: Opaque, set by the producer.
      - id: queue_offset
        type: s8
        doc: Number of the message in its queue.
      - id: physical_offset
        type: s8
        doc: Offset of the record's first byte in the whole commit log.
      - id: sys_flag
        type: s4
      - id: born_timestamp
        type: s8
        doc: Milliseconds since the epoch, the producer's clock.
      - id: born_host
        type: host(is_born_host_v6)
      - id: store_timestamp
        type: s8
        doc: Milliseconds since the epoch, the broker's clock.
      - id: store_host
        type: host(is_store_host_v6)
      - id: reconsume_times
        type: s4
      - id: prepared_transaction_offset
        type: s8
      - id: body_length
        type: s4
      - id: body
        size: 'body_length > 0 ? body_length : 0'
      - id: topic_length_v1
        type: s1
        if: _parent.version == 1
        valid:
          min: 0
      - id: topic_length_v2
        type: s2
        if: _parent.version == 2
        valid:
          min: 0
      - id: topic
        size: topic_length
      - id: properties_length
        type: s2
      - id: properties
        type: rocketmq_properties
        size: 'properties_length > 0 ? properties_length : 0'
      - id: fields_end
        size: 0
        valid:
          expr: _io.eof
        doc: Nothing may follow the properties inside `total_size`.
    instances:
      topic_length:
        value: '_parent.version == 1 ? topic_length_v1 : topic_length_v2'
      is_compressed:
        value: (sys_flag & 0x1) != 0
      has_multi_tags:
        value: (sys_flag & 0x2) != 0
      transaction_type:
        value: (sys_flag >> 2) & 3
        enum: transaction_type
      is_born_host_v6:
        value: (sys_flag & 0x10) != 0
      is_store_host_v6:
        value: (sys_flag & 0x20) != 0
      needs_unwrap:
        value: (sys_flag & 0x40) != 0
      is_inner_batch:
        value: (sys_flag & 0x80) != 0
      compression_type:
        value: (sys_flag >> 8) & 7
        enum: compression_type
  host:
    params:
      - id: is_v6
        type: b1
    seq:
      - id: address
        size: 'is_v6 ? 16 : 4'
      - id: port
        type: s4
enums:
  transaction_type:
    0: none
    1: prepared
    2: commit
    3: rollback
  compression_type:
    0: legacy_zlib
    1: lz4
    2: zstd
    3: zlib
