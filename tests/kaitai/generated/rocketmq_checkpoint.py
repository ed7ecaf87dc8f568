# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqCheckpoint(KaitaiStruct):
    """A page of 4096 bytes. The first three fields exist in all versions, the fourth since 5.0.0, the fifth
    since 5.1.1 and the sixth since 5.5.0; an older broker leaves them as it found them.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqCheckpoint, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.physic_msg_timestamp = self._io.read_s8be()
        self.logics_msg_timestamp = self._io.read_s8be()
        self.index_msg_timestamp = self._io.read_s8be()
        self.master_flushed_offset = self._io.read_s8be()
        self.confirm_phy_offset = self._io.read_s8be()
        self.logics_physical_offset = self._io.read_s8be()
        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
