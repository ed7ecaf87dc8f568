# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqConsumequeueExt(KaitaiStruct):
    """Units of variable size, one after the other. A size of -1 ends the file; a size of 0 is where nothing
    was written yet. The walk ends at whatever is not a unit; a unit is decoded when it is asked for.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqConsumequeueExt, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.frames = []
        i = 0
        while True:
            _ = RocketmqConsumequeueExt.Frame(self._io, self, self._root)
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


    class Frame(KaitaiStruct):

        class Kind(IntEnum):
            unit = 0
            end_of_file = 1
            unwritten = 2
            cut = 3
            misframed = 4
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqConsumequeueExt.Frame, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            if self.start_pos >= 0:
                pass
                self.start = self._io.read_bytes(0)

            if self.kind == RocketmqConsumequeueExt.Frame.Kind.unit:
                pass
                self.raw_unit = self._io.read_bytes(self.unit_size)

            if self.kind == RocketmqConsumequeueExt.Frame.Kind.end_of_file:
                pass
                self.end_mark = self._io.read_s2be()



        def _fetch_instances(self):
            pass
            if self.start_pos >= 0:
                pass

            if self.kind == RocketmqConsumequeueExt.Frame.Kind.unit:
                pass

            if self.kind == RocketmqConsumequeueExt.Frame.Kind.end_of_file:
                pass

            _ = self.unit
            if hasattr(self, '_m_unit'):
                pass
                self._m_unit._fetch_instances()

            _ = self.unit_size
            if hasattr(self, '_m_unit_size'):
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

            self._m_is_last = self.kind != RocketmqConsumequeueExt.Frame.Kind.unit
            return getattr(self, '_m_is_last', None)

        @property
        def kind(self):
            if hasattr(self, '_m_kind'):
                return self._m_kind

            self._m_kind = KaitaiStream.resolve_enum(RocketmqConsumequeueExt.Frame.Kind, (RocketmqConsumequeueExt.Frame.Kind.cut if self.available_size < 2 else (RocketmqConsumequeueExt.Frame.Kind.end_of_file if self.unit_size == -1 else (RocketmqConsumequeueExt.Frame.Kind.unwritten if self.unit_size == 0 else (RocketmqConsumequeueExt.Frame.Kind.unit if  ((self.unit_size >= 20) and (self.unit_size <= self.available_size))  else RocketmqConsumequeueExt.Frame.Kind.misframed)))))
            return getattr(self, '_m_kind', None)

        @property
        def start_pos(self):
            if hasattr(self, '_m_start_pos'):
                return self._m_start_pos

            self._m_start_pos = self._io.pos()
            return getattr(self, '_m_start_pos', None)

        @property
        def unit(self):
            if hasattr(self, '_m_unit'):
                return self._m_unit

            if self.kind == RocketmqConsumequeueExt.Frame.Kind.unit:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._raw__m_unit = self._io.read_bytes(self.unit_size)
                _io__raw__m_unit = KaitaiStream(BytesIO(self._raw__m_unit))
                self._m_unit = RocketmqConsumequeueExt.Unit(_io__raw__m_unit, self, self._root)
                self._io.seek(_pos)

            return getattr(self, '_m_unit', None)

        @property
        def unit_size(self):
            if hasattr(self, '_m_unit_size'):
                return self._m_unit_size

            if self.available_size >= 2:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._m_unit_size = self._io.read_s2be()
                self._io.seek(_pos)

            return getattr(self, '_m_unit_size', None)


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqConsumequeueExt.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.size = self._io.read_s2be()
            if not self.size >= 20:
                raise kaitaistruct.ValidationLessThanError(20, self.size, self._io, u"/types/unit/seq/0")
            self.tags_code = self._io.read_s8be()
            self.msg_store_time = self._io.read_s8be()
            self.bit_map_size = self._io.read_s2be()
            _ = self.bit_map_size
            if not  ((self.bit_map_size >= 0) and (self.bit_map_size == self.size - 20)) :
                raise kaitaistruct.ValidationExprError(self.bit_map_size, self._io, u"/types/unit/seq/3")
            self.filter_bit_map = self._io.read_bytes(self.bit_map_size)


        def _fetch_instances(self):
            pass
