# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqProperties(KaitaiStruct):
    """`name 0x01 value 0x02` repeated, without escaping; whether the last 0x02 is present depends on the
    dialect. Names and values are left as bytes: nothing guarantees that they are valid UTF-8.
    
    Two parsers exist in brokers. The newer one ("scan") takes a segment whose name and value are both
    non-empty, and lets the value contain further 0x01. The older one ("split") cuts a segment at every
    0x01, drops empty pieces from its end and takes it if exactly two pieces are left.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqProperties, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self._raw_segments = []
        self.segments = []
        i = 0
        while not self._io.is_eof():
            self._raw_segments.append(self._io.read_bytes_term(2, False, True, False))
            _io__raw_segments = KaitaiStream(BytesIO(self._raw_segments[-1]))
            self.segments.append(RocketmqProperties.Segment(_io__raw_segments, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.segments)):
            pass
            self.segments[i]._fetch_instances()


    class Segment(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqProperties.Segment, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.name = self._io.read_bytes_term(1, False, True, False)
            self.value = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            _ = self.pieces
            if hasattr(self, '_m_pieces'):
                pass
                for i in range(len(self._m_pieces)):
                    pass



        @property
        def has_separator(self):
            """False where no 0x01 is in the segment (then all of it was read as the name)."""
            if hasattr(self, '_m_has_separator'):
                return self._m_has_separator

            self._m_has_separator = self._io.size() > len(self.name)
            return getattr(self, '_m_has_separator', None)

        @property
        def is_pair_by_scan(self):
            if hasattr(self, '_m_is_pair_by_scan'):
                return self._m_is_pair_by_scan

            self._m_is_pair_by_scan =  ((self.has_separator) and (len(self.name) > 0) and (len(self.value) > 0)) 
            return getattr(self, '_m_is_pair_by_scan', None)

        @property
        def pieces(self):
            """What the split parser sees, empty pieces at the end included."""
            if hasattr(self, '_m_pieces'):
                return self._m_pieces

            _pos = self._io.pos()
            self._io.seek(0)
            self._m_pieces = []
            i = 0
            while not self._io.is_eof():
                self._m_pieces.append(self._io.read_bytes_term(1, False, True, False))
                i += 1

            self._io.seek(_pos)
            return getattr(self, '_m_pieces', None)
