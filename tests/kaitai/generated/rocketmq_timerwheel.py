# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqTimerwheel(KaitaiStruct):
    """Slots of 32 bytes, two weeks of them: 2 * 7 * 24 * 3600 slots whatever the precision. The slot of a time
    `t` has the number `(t / precision) % slots`; it holds that time's chain only if `slot_time` says so.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqTimerwheel, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.slots = []
        for i in range(self._io.size() // 32):
            self.slots.append(RocketmqTimerwheel.Slot(self._io, self, self._root))

        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        for i in range(len(self.slots)):
            pass
            self.slots[i]._fetch_instances()


    class Slot(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTimerwheel.Slot, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.slot_time = self._io.read_s8be()
            self.first_pos = self._io.read_s8be()
            self.last_pos = self._io.read_s8be()
            self.num = self._io.read_s4be()
            self.magic = self._io.read_s4be()


        def _fetch_instances(self):
            pass
