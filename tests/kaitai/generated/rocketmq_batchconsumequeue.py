# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqBatchconsumequeue(KaitaiStruct):
    """An array of 46-byte units, one for a record, which may hold many messages. Queues of the compaction store
    use the same unit and end a file with a unit of (-1, 0, 0, 0, 0, 0, -1, 0).
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqBatchconsumequeue, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.units = []
        for i in range(self._io.size() // 46):
            self.units.append(RocketmqBatchconsumequeue.Unit(self._io, self, self._root))

        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        for i in range(len(self.units)):
            pass
            self.units[i]._fetch_instances()


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqBatchconsumequeue.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.offset = self._io.read_s8be()
            self.size = self._io.read_s4be()
            self.tags_code = self._io.read_s8be()
            self.store_time = self._io.read_s8be()
            self.msg_base_offset = self._io.read_s8be()
            self.batch_size = self._io.read_s2be()
            self.compacted_offset = self._io.read_s4be()
            self.reserved = self._io.read_s4be()


        def _fetch_instances(self):
            pass

        @property
        def is_compaction_end(self):
            if hasattr(self, '_m_is_compaction_end'):
                return self._m_is_compaction_end

            self._m_is_compaction_end =  ((self.offset == -1) and (self.size == 0) and (self.compacted_offset == -1)) 
            return getattr(self, '_m_is_compaction_end', None)

        @property
        def is_valid(self):
            if hasattr(self, '_m_is_valid'):
                return self._m_is_valid

            self._m_is_valid =  ((self.offset >= 0) and (self.size > 0) and (self.msg_base_offset >= 0) and (self.batch_size > 0)) 
            return getattr(self, '_m_is_valid', None)
