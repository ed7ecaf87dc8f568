# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqIndexfile(KaitaiStruct):
    """A hash table with chains: header, slots, entries. The numbers of slots and entries are configuration
    (5,000,000 and 20,000,000 by default) and stand nowhere in the file; its length must be
    `40 + 4 * slot_count + 20 * entry_count`. A slot holds the number of the newest entry of its chain and
    each entry the number of the one before; 0 is none, and entry 0 is never used.
    """
    def __init__(self, slot_count, entry_count, _io, _parent=None, _root=None):
        super(RocketmqIndexfile, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self.slot_count = slot_count
        self.entry_count = entry_count
        self._read()

    def _read(self):
        self.start = self._io.read_bytes(0)
        _ = self.start
        if not self._io.size() == (40 + 4 * self.slot_count) + 20 * self.entry_count:
            raise kaitaistruct.ValidationExprError(self.start, self._io, u"/seq/0")
        self.header = RocketmqIndexfile.Header(self._io, self, self._root)
        self.slots = []
        for i in range(self.slot_count):
            self.slots.append(self._io.read_s4be())

        self.entries = []
        for i in range(self.entry_count):
            self.entries.append(RocketmqIndexfile.Entry(self._io, self, self._root))



    def _fetch_instances(self):
        pass
        self.header._fetch_instances()
        for i in range(len(self.slots)):
            pass

        for i in range(len(self.entries)):
            pass
            self.entries[i]._fetch_instances()


    class Entry(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqIndexfile.Entry, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.key_hash = self._io.read_s4be()
            self.phy_offset = self._io.read_s8be()
            self.time_diff = self._io.read_s4be()
            self.prev_index = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    class Header(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqIndexfile.Header, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.begin_timestamp = self._io.read_s8be()
            self.end_timestamp = self._io.read_s8be()
            self.begin_phy_offset = self._io.read_s8be()
            self.end_phy_offset = self._io.read_s8be()
            self.hash_slot_count = self._io.read_s4be()
            self.index_count = self._io.read_s4be()


        def _fetch_instances(self):
            pass

        @property
        def used_entry_count(self):
            if hasattr(self, '_m_used_entry_count'):
                return self._m_used_entry_count

            self._m_used_entry_count = (self.index_count - 1 if self.index_count > 1 else 0)
            return getattr(self, '_m_used_entry_count', None)
