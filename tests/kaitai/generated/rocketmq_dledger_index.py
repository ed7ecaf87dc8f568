# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqDledgerIndex(KaitaiStruct):
    """An array of 32-byte units, one for each entry of the data files."""
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqDledgerIndex, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.units = []
        for i in range(self._io.size() // 32):
            self.units.append(RocketmqDledgerIndex.Unit(self._io, self, self._root))

        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        for i in range(len(self.units)):
            pass
            self.units[i]._fetch_instances()


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqDledgerIndex.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.magic = self._io.read_s4be()
            self.pos = self._io.read_s8be()
            self.size = self._io.read_s4be()
            self.index = self._io.read_s8be()
            self.term = self._io.read_s8be()


        def _fetch_instances(self):
            pass
