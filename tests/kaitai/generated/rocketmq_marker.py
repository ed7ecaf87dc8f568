# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqMarker(KaitaiStruct):
    """`abort` (empty, or a process id in decimal) and `lock` (the word "lock"; what counts is the lock that a running
    broker holds on its first byte).
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqMarker, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.content = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        _ = self.pid_text
        if hasattr(self, '_m_pid_text'):
            pass


    @property
    def is_lock(self):
        if hasattr(self, '_m_is_lock'):
            return self._m_is_lock

        self._m_is_lock = self.content == b"\x6C\x6F\x63\x6B"
        return getattr(self, '_m_is_lock', None)

    @property
    def pid_text(self):
        if hasattr(self, '_m_pid_text'):
            return self._m_pid_text

        _pos = self._io.pos()
        self._io.seek(0)
        self._m_pid_text = (self._io.read_bytes_full()).decode(u"ASCII")
        self._io.seek(_pos)
        return getattr(self, '_m_pid_text', None)
