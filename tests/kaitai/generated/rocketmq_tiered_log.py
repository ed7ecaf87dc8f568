# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqTieredLog(KaitaiStruct):
    """A log segment of tiered storage is commit log records one after the other (rocketmq_commitlog), whose
    physicalOffset is their place in the log of their own queue. Brokers from 5.1.0 to 5.2.0 end a full segment
    with this coda; a queue segment is 20-byte units (rocketmq_consumequeue).
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqTieredLog, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.size = self._io.read_s4be()
        self.magic_code = self._io.read_s4be()
        if not self.magic_code == -875286124:
            raise kaitaistruct.ValidationNotEqualError(-875286124, self.magic_code, self._io, u"/seq/1")
        self.max_store_timestamp = self._io.read_s8be()


    def _fetch_instances(self):
        pass
