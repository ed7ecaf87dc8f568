# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from . import rocketmq_record
from . import rocketmq_blank
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqCommitlog(KaitaiStruct):
    """A segment of the commit log: records one after the other without padding, then an end-of-file record
    (BLANK) if the log went on in another file, or bytes that were never written (zero).
    
    The walk goes from frame to frame by `total_size`, as a broker does, and ends at the first frame that is
    not a record. A record's content is decoded when it is asked for: a malformed one fails alone.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqCommitlog, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.frames = []
        i = 0
        while True:
            _ = RocketmqCommitlog.Frame(self._io, self, self._root)
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
            record = 0
            blank = 1
            unwritten = 2
            cut = 3
            misframed = 4
            illegal_magic = 5
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqCommitlog.Frame, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            if self.start_pos >= 0:
                pass
                self.start = self._io.read_bytes(0)

            if self.kind == RocketmqCommitlog.Frame.Kind.record:
                pass
                self.raw_record = self._io.read_bytes(self.total_size)

            if self.kind == RocketmqCommitlog.Frame.Kind.blank:
                pass
                self.blank = rocketmq_blank.RocketmqBlank(self._io)



        def _fetch_instances(self):
            pass
            if self.start_pos >= 0:
                pass

            if self.kind == RocketmqCommitlog.Frame.Kind.record:
                pass

            if self.kind == RocketmqCommitlog.Frame.Kind.blank:
                pass
                self.blank._fetch_instances()

            _ = self.magic_code
            if hasattr(self, '_m_magic_code'):
                pass

            _ = self.record
            if hasattr(self, '_m_record'):
                pass
                self._m_record._fetch_instances()

            _ = self.total_size
            if hasattr(self, '_m_total_size'):
                pass


        @property
        def available_size(self):
            if hasattr(self, '_m_available_size'):
                return self._m_available_size

            self._m_available_size = self._io.size() - self.start_pos
            return getattr(self, '_m_available_size', None)

        @property
        def is_framed(self):
            if hasattr(self, '_m_is_framed'):
                return self._m_is_framed

            self._m_is_framed =  ((self.total_size >= 91) and (self.total_size <= self.available_size)) 
            return getattr(self, '_m_is_framed', None)

        @property
        def is_last(self):
            if hasattr(self, '_m_is_last'):
                return self._m_is_last

            self._m_is_last = self.kind != RocketmqCommitlog.Frame.Kind.record
            return getattr(self, '_m_is_last', None)

        @property
        def kind(self):
            if hasattr(self, '_m_kind'):
                return self._m_kind

            self._m_kind = KaitaiStream.resolve_enum(RocketmqCommitlog.Frame.Kind, (RocketmqCommitlog.Frame.Kind.cut if self.available_size < 8 else (RocketmqCommitlog.Frame.Kind.blank if self.magic_code == -875286124 else ((RocketmqCommitlog.Frame.Kind.record if self.is_framed else RocketmqCommitlog.Frame.Kind.misframed) if  ((self.magic_code == -626843481) or (self.magic_code == -626843477))  else (RocketmqCommitlog.Frame.Kind.unwritten if  ((self.total_size == 0) and (self.magic_code == 0))  else RocketmqCommitlog.Frame.Kind.illegal_magic)))))
            return getattr(self, '_m_kind', None)

        @property
        def magic_code(self):
            if hasattr(self, '_m_magic_code'):
                return self._m_magic_code

            if self.available_size >= 8:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos + 4)
                self._m_magic_code = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_magic_code', None)

        @property
        def record(self):
            if hasattr(self, '_m_record'):
                return self._m_record

            if self.kind == RocketmqCommitlog.Frame.Kind.record:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._raw__m_record = self._io.read_bytes(self.total_size)
                _io__raw__m_record = KaitaiStream(BytesIO(self._raw__m_record))
                self._m_record = rocketmq_record.RocketmqRecord(_io__raw__m_record)
                self._io.seek(_pos)

            return getattr(self, '_m_record', None)

        @property
        def start_pos(self):
            if hasattr(self, '_m_start_pos'):
                return self._m_start_pos

            self._m_start_pos = self._io.pos()
            return getattr(self, '_m_start_pos', None)

        @property
        def total_size(self):
            if hasattr(self, '_m_total_size'):
                return self._m_total_size

            if self.available_size >= 8:
                pass
                _pos = self._io.pos()
                self._io.seek(self.start_pos)
                self._m_total_size = self._io.read_s4be()
                self._io.seek(_pos)

            return getattr(self, '_m_total_size', None)
