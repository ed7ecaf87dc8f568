# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqTieredIndex(KaitaiStruct):
    """The header says whether the file is still written (begin magic) or complete (end magic). Slots and items that
    follow depend on configuration and form; their types are here to be applied to a position.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqTieredIndex, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.header = RocketmqTieredIndex.Header(self._io, self, self._root)
        self.content = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        self.header._fetch_instances()

    class CompactedItem(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTieredIndex.CompactedItem, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.hash = self._io.read_s4be()
            self.topic_id = self._io.read_s4be()
            self.queue_id = self._io.read_s4be()
            self.offset = self._io.read_s8be()
            self.size = self._io.read_s4be()
            self.time_diff = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    class CompactedSlot(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTieredIndex.CompactedSlot, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.position = self._io.read_s4be()
            self.length = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    class Header(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTieredIndex.Header, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.magic_code = self._io.read_s4be()
            self.begin_timestamp = self._io.read_s8be()
            self.end_timestamp = self._io.read_s8be()
            self.slot_count = self._io.read_s4be()
            self.index_count = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    class Item(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTieredIndex.Item, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.fields = RocketmqTieredIndex.CompactedItem(self._io, self, self._root)
            self.prev_item = self._io.read_s4be()


        def _fetch_instances(self):
            pass
            self.fields._fetch_instances()


    class Slot(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTieredIndex.Slot, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.newest_item = self._io.read_s4be()
            self.unused = self._io.read_s4be()


        def _fetch_instances(self):
            pass
