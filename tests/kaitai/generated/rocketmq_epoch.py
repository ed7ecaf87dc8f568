# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqEpoch(KaitaiStruct):
    """Text. The number of entries, the CRC-32 of all bytes after the second line with the top bit cleared
    (0: not to be checked), then one line `epoch-startOffset` for each entry. An entry ends where the next
    begins.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqEpoch, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.num_entries_text = (self._io.read_bytes_term(10, False, True, True)).decode(u"ASCII")
        self.crc_text = (self._io.read_bytes_term(10, False, True, True)).decode(u"ASCII")
        self.entries = []
        i = 0
        while not self._io.is_eof():
            self.entries.append(RocketmqEpoch.Entry(self._io, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.entries)):
            pass
            self.entries[i]._fetch_instances()


    class Entry(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqEpoch.Entry, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.epoch_text = (self._io.read_bytes_term(45, False, True, True)).decode(u"ASCII")
            self.start_offset_text = (self._io.read_bytes_term(10, False, True, False)).decode(u"ASCII")


        def _fetch_instances(self):
            pass

        @property
        def epoch(self):
            if hasattr(self, '_m_epoch'):
                return self._m_epoch

            self._m_epoch = int(self.epoch_text)
            return getattr(self, '_m_epoch', None)

        @property
        def start_offset(self):
            if hasattr(self, '_m_start_offset'):
                return self._m_start_offset

            self._m_start_offset = int(self.start_offset_text)
            return getattr(self, '_m_start_offset', None)


    @property
    def crc(self):
        if hasattr(self, '_m_crc'):
            return self._m_crc

        self._m_crc = int(self.crc_text)
        return getattr(self, '_m_crc', None)

    @property
    def num_entries(self):
        if hasattr(self, '_m_num_entries'):
            return self._m_num_entries

        self._m_num_entries = int(self.num_entries_text)
        return getattr(self, '_m_num_entries', None)
