# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqDledger(KaitaiStruct):
    """Entries one after the other: a header of 48 bytes and a body, which for a normal entry is a commit log
    record. A magic of -1 with the number of bytes left ends the file.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqDledger, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.frames = []
        i = 0
        while True:
            _ = RocketmqDledger.Frame(self._io, self, self._root)
            self.frames.append(_)
            if  ((_.is_last) or (self._io.is_eof())) :
                break
            i += 1
        self.tail = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        for i in range(len(self.frames)):
            pass
            self.frames[i]._fetch_instances()


    class Blank(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqDledger.Blank, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.magic = self._io.read_s4be()
            if not self.magic == -1:
                raise kaitaistruct.ValidationNotEqualError(-1, self.magic, self._io, u"/types/blank/seq/0")
            self.size = self._io.read_s4be()


        def _fetch_instances(self):
            pass


    class Entry(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqDledger.Entry, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.magic = self._io.read_s4be()
            self.size = self._io.read_s4be()
            self.index = self._io.read_s8be()
            self.term = self._io.read_s8be()
            self.pos = self._io.read_s8be()
            self.channel = self._io.read_s4be()
            self.chain_crc = self._io.read_s4be()
            self.body_crc = self._io.read_s4be()
            self.body_len = self._io.read_s4be()
            _ = self.body_len
            if not  ((self.body_len >= 0) and (self.size == 48 + self.body_len)) :
                raise kaitaistruct.ValidationExprError(self.body_len, self._io, u"/types/entry/seq/8")
            self.body = self._io.read_bytes(self.body_len)


        def _fetch_instances(self):
            pass


    class Frame(KaitaiStruct):

        class Kind(IntEnum):
            entry = 0
            blank = 1
            unwritten = 2
            cut = 3
            misframed = 4
            illegal_magic = 5
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqDledger.Frame, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            if self.start_pos >= 0:
                pass
                self.start = self._io.read_bytes(0)

            if self.kind == RocketmqDledger.Frame.Kind.entry:
                pass
                self.raw_entry = self._io.read_bytes(self.size)

            if self.kind == RocketmqDledger.Frame.Kind.blank:
                pass
                self.blank = RocketmqDledger.Blank(self._io, self, self._root)



        def _fetch_instances(self):
            pass
            if self.start_pos >= 0:
                pass

            if self.kind == RocketmqDledger.Frame.Kind.entry:
                pass

            if self.kind == RocketmqDledger.Frame.Kind.blank:
                pass
                self.blank._fetch_instances()

            _ = self.entry
            if hasattr(self, '_m_entry'):
                pass
                self._m_entry._fetch_instances()

            _ = self.magic
            if hasattr(self, '_m_magic'):
                pass

            _ = self.size
            if hasattr(self, '_m_size'):
                pass


        @property
        def available_size(self):
            if hasattr(self, '_m_available_size'):
                return self._m_available_size

            self._m_available_size = self._io.size() - self.start_pos
            return getattr(self, '_m_available_size', None)

        @property
        def entry(self):
            if hasattr(self, '_m_entry'):
                return self._m_entry

            if self.kind == RocketmqDledger.Frame.Kind.entry:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._raw__m_entry = self._io.read_bytes(self.size)
                _io__raw__m_entry = KaitaiStream(BytesIO(self._raw__m_entry))
                self._m_entry = RocketmqDledger.Entry(_io__raw__m_entry, self, self._root)
                self._io.seek(_pos)

            return getattr(self, '_m_entry', None)

        @property
        def is_framed(self):
            if hasattr(self, '_m_is_framed'):
                return self._m_is_framed

            self._m_is_framed =  ((self.size >= 48) and (self.size <= self.available_size)) 
            return getattr(self, '_m_is_framed', None)

        @property
        def is_last(self):
            if hasattr(self, '_m_is_last'):
                return self._m_is_last

            self._m_is_last = self.kind != RocketmqDledger.Frame.Kind.entry
            return getattr(self, '_m_is_last', None)

        @property
        def kind(self):
            if hasattr(self, '_m_kind'):
                return self._m_kind

            self._m_kind = KaitaiStream.resolve_enum(RocketmqDledger.Frame.Kind, (RocketmqDledger.Frame.Kind.cut if self.available_size < 8 else (RocketmqDledger.Frame.Kind.blank if self.magic == -1 else ((RocketmqDledger.Frame.Kind.entry if self.is_framed else RocketmqDledger.Frame.Kind.misframed) if  ((self.magic >= 1) and (self.magic <= 3))  else (RocketmqDledger.Frame.Kind.unwritten if  ((self.magic == 0) and (self.size == 0))  else RocketmqDledger.Frame.Kind.illegal_magic)))))
            return getattr(self, '_m_kind', None)

        @property
        def magic(self):
            if hasattr(self, '_m_magic'):
                return self._m_magic

            if self.available_size >= 8:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._m_magic = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_magic', None)

        @property
        def size(self):
            if hasattr(self, '_m_size'):
                return self._m_size

            if self.available_size >= 8:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos + 4)
                self._m_size = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_size', None)

        @property
        def start_pos(self):
            if hasattr(self, '_m_start_pos'):
                return self._m_start_pos

            self._m_start_pos = self._io.pos()
            return getattr(self, '_m_start_pos', None)
