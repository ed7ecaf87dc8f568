# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqTimerlog(KaitaiStruct):
    """Units of 52 bytes. Where the next one does not fit, 16 bytes (what is left, 0, the BLANK magic) end the
    file. The walk ends at whatever is not a unit.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqTimerlog, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.frames = []
        i = 0
        while True:
            _ = RocketmqTimerlog.Frame(self._io, self, self._root)
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
            super(RocketmqTimerlog.Blank, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.size = self._io.read_s4be()
            self.prev_pos = self._io.read_s8be()
            self.magic = self._io.read_s4be()
            if not self.magic == -875286124:
                raise kaitaistruct.ValidationNotEqualError(-875286124, self.magic, self._io, u"/types/blank/seq/2")


        def _fetch_instances(self):
            pass


    class Frame(KaitaiStruct):

        class Kind(IntEnum):
            unit = 0
            blank = 1
            unwritten = 2
            cut = 3
            misframed = 4
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTimerlog.Frame, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            if self.start_pos >= 0:
                pass
                self.start = self._io.read_bytes(0)

            if self.kind == RocketmqTimerlog.Frame.Kind.unit:
                pass
                self.unit = RocketmqTimerlog.Unit(self._io, self, self._root)

            if self.kind == RocketmqTimerlog.Frame.Kind.blank:
                pass
                self.blank = RocketmqTimerlog.Blank(self._io, self, self._root)



        def _fetch_instances(self):
            pass
            if self.start_pos >= 0:
                pass

            if self.kind == RocketmqTimerlog.Frame.Kind.unit:
                pass
                self.unit._fetch_instances()

            if self.kind == RocketmqTimerlog.Frame.Kind.blank:
                pass
                self.blank._fetch_instances()

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
        def is_last(self):
            if hasattr(self, '_m_is_last'):
                return self._m_is_last

            self._m_is_last = self.kind != RocketmqTimerlog.Frame.Kind.unit
            return getattr(self, '_m_is_last', None)

        @property
        def kind(self):
            if hasattr(self, '_m_kind'):
                return self._m_kind

            self._m_kind = KaitaiStream.resolve_enum(RocketmqTimerlog.Frame.Kind, (RocketmqTimerlog.Frame.Kind.cut if self.available_size < 16 else (RocketmqTimerlog.Frame.Kind.blank if self.magic == -875286124 else (RocketmqTimerlog.Frame.Kind.unit if  ((self.size == 52) and (self.available_size >= 52))  else (RocketmqTimerlog.Frame.Kind.unwritten if  ((self.size == 0) and (self.magic == 0))  else RocketmqTimerlog.Frame.Kind.misframed)))))
            return getattr(self, '_m_kind', None)

        @property
        def magic(self):
            if hasattr(self, '_m_magic'):
                return self._m_magic

            if self.available_size >= 16:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos + 12)
                self._m_magic = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_magic', None)

        @property
        def size(self):
            if hasattr(self, '_m_size'):
                return self._m_size

            if self.available_size >= 16:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._m_size = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_size', None)

        @property
        def start_pos(self):
            if hasattr(self, '_m_start_pos'):
                return self._m_start_pos

            self._m_start_pos = self._io.pos()
            return getattr(self, '_m_start_pos', None)


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqTimerlog.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.size = self._io.read_s4be()
            if not self.size == 52:
                raise kaitaistruct.ValidationNotEqualError(52, self.size, self._io, u"/types/unit/seq/0")
            self.prev_pos = self._io.read_s8be()
            self.magic = self._io.read_s4be()
            self.curr_write_time = self._io.read_s8be()
            self.delayed_time = self._io.read_s4be()
            self.offset_py = self._io.read_s8be()
            self.size_py = self._io.read_s4be()
            self.hash_code_of_real_topic = self._io.read_s4be()
            self.reserved_value = self._io.read_s8be()


        def _fetch_instances(self):
            pass

        @property
        def is_magic_valid(self):
            if hasattr(self, '_m_is_magic_valid'):
                return self._m_is_magic_valid

            self._m_is_magic_valid = self.magic | 15 == 15
            return getattr(self, '_m_is_magic_valid', None)
