# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from . import rocketmq_properties
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqRecord(KaitaiStruct):
    """One message as a broker stores it, V1 (topic length of one byte) or V2 (two bytes), with hosts of 8
    bytes (IPv4) or 20 (IPv6) each. The record is accepted exactly when its fields fill `total_size` bytes
    to the last one. A negative body or properties length counts as 0, as it does for a broker.
    
    Not judged here: the CRC of the body, the position that `physical_offset` claims, reserved bits.
    """

    class CompressionType(IntEnum):
        legacy_zlib = 0
        lz4 = 1
        zstd = 2
        zlib = 3

    class TransactionType(IntEnum):
        none = 0
        prepared = 1
        commit = 2
        rollback = 3
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqRecord, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.total_size = self._io.read_s4be()
        if not self.total_size >= 91:
            raise kaitaistruct.ValidationLessThanError(91, self.total_size, self._io, u"/seq/0")
        self.magic_code = self._io.read_s4be()
        if not  ((self.magic_code == -626843481) or (self.magic_code == -626843477)) :
            raise kaitaistruct.ValidationNotAnyOfError(self.magic_code, self._io, u"/seq/1")
        self._raw_content = self._io.read_bytes(self.total_size - 8)
        _io__raw_content = KaitaiStream(BytesIO(self._raw_content))
        self.content = RocketmqRecord.Content(_io__raw_content, self, self._root)


    def _fetch_instances(self):
        pass
        self.content._fetch_instances()

    class Content(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRecord.Content, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.body_crc = self._io.read_s4be()
            self.queue_id = self._io.read_s4be()
            self.flag = self._io.read_s4be()
            self.queue_offset = self._io.read_s8be()
            self.physical_offset = self._io.read_s8be()
            self.sys_flag = self._io.read_s4be()
            self.born_timestamp = self._io.read_s8be()
            self.born_host = RocketmqRecord.Host(self.is_born_host_v6, self._io, self, self._root)
            self.store_timestamp = self._io.read_s8be()
            self.store_host = RocketmqRecord.Host(self.is_store_host_v6, self._io, self, self._root)
            self.reconsume_times = self._io.read_s4be()
            self.prepared_transaction_offset = self._io.read_s8be()
            self.body_length = self._io.read_s4be()
            self.body = self._io.read_bytes((self.body_length if self.body_length > 0 else 0))
            if self._parent.version == 1:
                pass
                self.topic_length_v1 = self._io.read_s1()
                if not self.topic_length_v1 >= 0:
                    raise kaitaistruct.ValidationLessThanError(0, self.topic_length_v1, self._io, u"/types/content/seq/14")

            if self._parent.version == 2:
                pass
                self.topic_length_v2 = self._io.read_s2be()
                if not self.topic_length_v2 >= 0:
                    raise kaitaistruct.ValidationLessThanError(0, self.topic_length_v2, self._io, u"/types/content/seq/15")

            self.topic = self._io.read_bytes(self.topic_length)
            self.properties_length = self._io.read_s2be()
            self._raw_properties = self._io.read_bytes((self.properties_length if self.properties_length > 0 else 0))
            _io__raw_properties = KaitaiStream(BytesIO(self._raw_properties))
            self.properties = rocketmq_properties.RocketmqProperties(_io__raw_properties)
            self.fields_end = self._io.read_bytes(0)
            _ = self.fields_end
            if not self._io.is_eof():
                raise kaitaistruct.ValidationExprError(self.fields_end, self._io, u"/types/content/seq/19")


        def _fetch_instances(self):
            pass
            self.born_host._fetch_instances()
            self.store_host._fetch_instances()
            if self._parent.version == 1:
                pass

            if self._parent.version == 2:
                pass

            self.properties._fetch_instances()

        @property
        def compression_type(self):
            if hasattr(self, '_m_compression_type'):
                return self._m_compression_type

            self._m_compression_type = KaitaiStream.resolve_enum(RocketmqRecord.CompressionType, self.sys_flag >> 8 & 7)
            return getattr(self, '_m_compression_type', None)

        @property
        def has_multi_tags(self):
            if hasattr(self, '_m_has_multi_tags'):
                return self._m_has_multi_tags

            self._m_has_multi_tags = self.sys_flag & 2 != 0
            return getattr(self, '_m_has_multi_tags', None)

        @property
        def is_born_host_v6(self):
            if hasattr(self, '_m_is_born_host_v6'):
                return self._m_is_born_host_v6

            self._m_is_born_host_v6 = self.sys_flag & 16 != 0
            return getattr(self, '_m_is_born_host_v6', None)

        @property
        def is_compressed(self):
            if hasattr(self, '_m_is_compressed'):
                return self._m_is_compressed

            self._m_is_compressed = self.sys_flag & 1 != 0
            return getattr(self, '_m_is_compressed', None)

        @property
        def is_inner_batch(self):
            if hasattr(self, '_m_is_inner_batch'):
                return self._m_is_inner_batch

            self._m_is_inner_batch = self.sys_flag & 128 != 0
            return getattr(self, '_m_is_inner_batch', None)

        @property
        def is_store_host_v6(self):
            if hasattr(self, '_m_is_store_host_v6'):
                return self._m_is_store_host_v6

            self._m_is_store_host_v6 = self.sys_flag & 32 != 0
            return getattr(self, '_m_is_store_host_v6', None)

        @property
        def needs_unwrap(self):
            if hasattr(self, '_m_needs_unwrap'):
                return self._m_needs_unwrap

            self._m_needs_unwrap = self.sys_flag & 64 != 0
            return getattr(self, '_m_needs_unwrap', None)

        @property
        def topic_length(self):
            if hasattr(self, '_m_topic_length'):
                return self._m_topic_length

            self._m_topic_length = (self.topic_length_v1 if self._parent.version == 1 else self.topic_length_v2)
            return getattr(self, '_m_topic_length', None)

        @property
        def transaction_type(self):
            if hasattr(self, '_m_transaction_type'):
                return self._m_transaction_type

            self._m_transaction_type = KaitaiStream.resolve_enum(RocketmqRecord.TransactionType, self.sys_flag >> 2 & 3)
            return getattr(self, '_m_transaction_type', None)


    class Host(KaitaiStruct):
        def __init__(self, is_v6, _io, _parent=None, _root=None):
            super(RocketmqRecord.Host, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.is_v6 = is_v6
            self._read()

        def _read(self):
            self.address = self._io.read_bytes((16 if self.is_v6 else 4))
            self.port = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    @property
    def version(self):
        if hasattr(self, '_m_version'):
            return self._m_version

        self._m_version = (2 if self.magic_code == -626843477 else 1)
        return getattr(self, '_m_version', None)
