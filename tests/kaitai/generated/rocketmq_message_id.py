# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqMessageId(KaitaiStruct):
    """The bytes behind the two kinds of id that are shown in upper-case hexadecimal. Both have 16 bytes (IPv4)
    or 28 (IPv6): which of the two an id is cannot be told from it.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqMessageId, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.start = self._io.read_bytes(0)
        _ = self.start
        if not  ((self._io.size() == 16) or (self._io.size() == 28)) :
            raise kaitaistruct.ValidationExprError(self.start, self._io, u"/seq/0")


    def _fetch_instances(self):
        pass
        _ = self.as_offset_id
        if hasattr(self, '_m_as_offset_id'):
            pass
            self._m_as_offset_id._fetch_instances()

        _ = self.as_unique_id
        if hasattr(self, '_m_as_unique_id'):
            pass
            self._m_as_unique_id._fetch_instances()


    class OffsetId(KaitaiStruct):
        def __init__(self, address_size, _io, _parent=None, _root=None):
            super(RocketmqMessageId.OffsetId, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.address_size = address_size
            self._read()

        def _read(self):
            self.address = self._io.read_bytes(self.address_size)
            self.port = self._io.read_s4be()
            self.physical_offset = self._io.read_s8be()


        def _fetch_instances(self):
            pass


    class UniqueId(KaitaiStruct):
        def __init__(self, address_size, _io, _parent=None, _root=None):
            super(RocketmqMessageId.UniqueId, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.address_size = address_size
            self._read()

        def _read(self):
            self.address = self._io.read_bytes(self.address_size)
            self.pid = self._io.read_u2be()
            self.loader_hash = self._io.read_u4be()
            self.time_span = self._io.read_u4be()
            self.counter = self._io.read_u2be()


        def _fetch_instances(self):
            pass


    @property
    def address_size(self):
        if hasattr(self, '_m_address_size'):
            return self._m_address_size

        self._m_address_size = (4 if self._io.size() == 16 else 16)
        return getattr(self, '_m_address_size', None)

    @property
    def as_offset_id(self):
        if hasattr(self, '_m_as_offset_id'):
            return self._m_as_offset_id

        _pos = self._io.pos()
        self._io.seek(0)
        self._m_as_offset_id = RocketmqMessageId.OffsetId(self.address_size, self._io, self, self._root)
        self._io.seek(_pos)
        return getattr(self, '_m_as_offset_id', None)

    @property
    def as_unique_id(self):
        if hasattr(self, '_m_as_unique_id'):
            return self._m_as_unique_id

        _pos = self._io.pos()
        self._io.seek(0)
        self._m_as_unique_id = RocketmqMessageId.UniqueId(self.address_size, self._io, self, self._root)
        self._io.seek(_pos)
        return getattr(self, '_m_as_unique_id', None)
