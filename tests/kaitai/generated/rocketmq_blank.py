# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqBlank(KaitaiStruct):
    """Written where the next record plus 8 bytes would not fit. `total_size` is what was left of the file,
    these 8 bytes included; readers go to the next file whatever it says. The bytes that follow, up to the
    end of the file, mean nothing.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqBlank, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.total_size = self._io.read_s4be()
        self.magic_code = self._io.read_s4be()
        if not self.magic_code == -875286124:
            raise kaitaistruct.ValidationNotEqualError(-875286124, self.magic_code, self._io, u"/seq/1")


    def _fetch_instances(self):
        pass
