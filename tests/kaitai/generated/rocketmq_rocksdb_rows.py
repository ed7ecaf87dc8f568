# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqRocksdbRows(KaitaiStruct):
    """Not a file: values of the column families `timer` and `trans` of `rocksdbstore/`, keys of both, of its index (the default
    family) and of `popState` in `kvStore/`, and keys and the data version of `config/rdb`.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqRocksdbRows, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        pass


    def _fetch_instances(self):
        pass

    class DataVersion(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.DataVersion, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.state_version = self._io.read_s8be()
            self.timestamp = self._io.read_s8be()
            self.counter = self._io.read_s8be()


        def _fetch_instances(self):
            pass


    class IndexKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.IndexKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.hour = self._io.read_s8be()
            self.topic_mark = self._io.read_bytes(1)
            if not self.topic_mark == b"\x40":
                raise kaitaistruct.ValidationNotEqualError(b"\x40", self.topic_mark, self._io, u"/types/index_key/seq/1")
            self._raw_names = self._io.read_bytes(self._io.size() - 18)
            _io__raw_names = KaitaiStream(BytesIO(self._raw_names))
            self.names = RocketmqRocksdbRows.IndexNames(_io__raw_names, self, self._root)
            self.offset_mark = self._io.read_bytes(1)
            if not self.offset_mark == b"\x40":
                raise kaitaistruct.ValidationNotEqualError(b"\x40", self.offset_mark, self._io, u"/types/index_key/seq/3")
            self.phy_offset = self._io.read_s8be()


        def _fetch_instances(self):
            pass
            self.names._fetch_instances()


    class IndexNames(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.IndexNames, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.topic = self._io.read_bytes_term(64, False, True, False)
            self.kind = self._io.read_bytes_term(64, False, True, False)
            if not  ((self.kind == b"\x4B") or (self.kind == b"\x54") or (self.kind == b"\x55")) :
                raise kaitaistruct.ValidationNotAnyOfError(self.kind, self._io, u"/types/index_names/seq/1")
            self.texts = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            _ = self.text_start
            if hasattr(self, '_m_text_start'):
                pass


        @property
        def text_start(self):
            """The text up to its first `@`; without one the key is malformed."""
            if hasattr(self, '_m_text_start'):
                return self._m_text_start

            if self.kind != b"\x55":
                pass
                _pos = self._io.pos()
                self._io.seek(self._io.size() - len(self.texts))
                self._m_text_start = self._io.read_bytes_term(64, False, True, True)
                self._io.seek(_pos)

            return getattr(self, '_m_text_start', None)


    class Name(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.Name, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_name = self._io.read_s2be()
            if not self.len_name >= 0:
                raise kaitaistruct.ValidationLessThanError(0, self.len_name, self._io, u"/types/name/seq/0")
            self.name = self._io.read_bytes(self.len_name)


        def _fetch_instances(self):
            pass


    class OffsetKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.OffsetKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.table_prefix = self._io.read_bytes(1)
            if not self.table_prefix == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.table_prefix, self._io, u"/types/offset_key/seq/0")
            self.table = self._io.read_s2be()
            if not self.table >= 1:
                raise kaitaistruct.ValidationLessThanError(1, self.table, self._io, u"/types/offset_key/seq/1")
            if not self.table <= 2:
                raise kaitaistruct.ValidationGreaterThanError(2, self.table, self._io, u"/types/offset_key/seq/1")
            self.record_prefix = self._io.read_bytes(1)
            if not self.record_prefix == b"\x02":
                raise kaitaistruct.ValidationNotEqualError(b"\x02", self.record_prefix, self._io, u"/types/offset_key/seq/2")
            self.group = RocketmqRocksdbRows.Name(self._io, self, self._root)
            self.group_end = self._io.read_bytes(1)
            if not self.group_end == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.group_end, self._io, u"/types/offset_key/seq/4")
            self.topic = RocketmqRocksdbRows.Name(self._io, self, self._root)
            self.topic_end = self._io.read_bytes(1)
            if not self.topic_end == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.topic_end, self._io, u"/types/offset_key/seq/6")
            self.queue_id = self._io.read_s4be()
            self.key_end = self._io.read_bytes(0)
            _ = self.key_end
            if not self._io.is_eof():
                raise kaitaistruct.ValidationExprError(self.key_end, self._io, u"/types/offset_key/seq/8")


        def _fetch_instances(self):
            pass
            self.group._fetch_instances()
            self.topic._fetch_instances()


    class PopKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.PopKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.visible_time = self._io.read_s8be()
            self._raw_names = self._io.read_bytes(self._io.size() - 22)
            _io__raw_names = KaitaiStream(BytesIO(self._raw_names))
            self.names = RocketmqRocksdbRows.PopNames(_io__raw_names, self, self._root)
            self.queue_id_mark = self._io.read_bytes(1)
            if not self.queue_id_mark == b"\x40":
                raise kaitaistruct.ValidationNotEqualError(b"\x40", self.queue_id_mark, self._io, u"/types/pop_key/seq/2")
            self.queue_id = self._io.read_s4be()
            self.queue_offset_mark = self._io.read_bytes(1)
            if not self.queue_offset_mark == b"\x40":
                raise kaitaistruct.ValidationNotEqualError(b"\x40", self.queue_offset_mark, self._io, u"/types/pop_key/seq/4")
            self.queue_offset = self._io.read_s8be()


        def _fetch_instances(self):
            pass
            self.names._fetch_instances()


    class PopNames(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.PopNames, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.group = self._io.read_bytes_term(64, False, True, True)
            self.topic = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    class TimerKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.TimerKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.deliver_time = self._io.read_s8be()
            self.unique_key = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    class TimerValue(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.TimerValue, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.size = self._io.read_s4be()
            self.phy_offset = self._io.read_s8be()


        def _fetch_instances(self):
            pass


    class TransKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.TransKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.phy_offset = self._io.read_s8be()
            self.topic_mark = self._io.read_bytes(1)
            if not self.topic_mark == b"\x40":
                raise kaitaistruct.ValidationNotEqualError(b"\x40", self.topic_mark, self._io, u"/types/trans_key/seq/1")
            self.topic = self._io.read_bytes_term(64, False, True, True)
            self.unique_key = self._io.read_bytes_term(64, False, False, False)
            self.key_end = self._io.read_bytes(0)
            _ = self.key_end
            if not self._io.is_eof():
                raise kaitaistruct.ValidationExprError(self.key_end, self._io, u"/types/trans_key/seq/4")


        def _fetch_instances(self):
            pass


    class TransValue(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbRows.TransValue, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.check_count = self._io.read_s4be()
            self.size = self._io.read_s4be()


        def _fetch_instances(self):
            pass
