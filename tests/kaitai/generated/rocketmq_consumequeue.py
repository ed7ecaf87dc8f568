# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqConsumequeue(KaitaiStruct):
    """An array of 20-byte units. The unit at byte `b` of the queue's stream (the number in the file's name is
    the first) has the queue offset `b / 20`. Units that were never written are zero.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqConsumequeue, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.units = []
        for i in range(self._io.size() // 20):
            self.units.append(RocketmqConsumequeue.Unit(self._io, self, self._root))

        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        for i in range(len(self.units)):
            pass
            self.units[i]._fetch_instances()


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqConsumequeue.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.offset = self._io.read_s8be()
            self.size = self._io.read_s4be()
            self.tags_code = self._io.read_s8be()


        def _fetch_instances(self):
            pass

        @property
        def ext_offset(self):
            """Offset in the stream of consumequeue_ext."""
            if hasattr(self, '_m_ext_offset'):
                return self._m_ext_offset

            if self.is_ext_address:
                pass
                self._m_ext_offset = (self.tags_code + 9223372036854775807) + 1

            return getattr(self, '_m_ext_offset', None)

        @property
        def is_ext_address(self):
            if hasattr(self, '_m_is_ext_address'):
                return self._m_is_ext_address

            self._m_is_ext_address = self.tags_code <= -2147483649
            return getattr(self, '_m_is_ext_address', None)

        @property
        def is_pre_blank(self):
            """Filler before the first message of a queue that does not start at 0."""
            if hasattr(self, '_m_is_pre_blank'):
                return self._m_is_pre_blank

            self._m_is_pre_blank =  ((self.offset == 0) and (self.size == 2147483647) and (self.tags_code == 0)) 
            return getattr(self, '_m_is_pre_blank', None)

        @property
        def is_valid(self):
            """What a broker's recovery asks of a unit."""
            if hasattr(self, '_m_is_valid'):
                return self._m_is_valid

            self._m_is_valid =  ((self.offset >= 0) and (self.size > 0)) 
            return getattr(self, '_m_is_valid', None)
