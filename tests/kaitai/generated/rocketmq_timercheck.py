# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqTimercheck(KaitaiStruct):
    """A page of 4096 bytes in the configuration directory."""
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqTimercheck, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.last_read_time_ms = self._io.read_s8be()
        self.last_timer_log_flush_pos = self._io.read_s8be()
        self.last_timer_queue_offset = self._io.read_s8be()
        self.master_timer_queue_offset = self._io.read_s8be()
        self.state_version = self._io.read_s8be()
        self.timestamp = self._io.read_s8be()
        self.counter = self._io.read_s8be()
        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
