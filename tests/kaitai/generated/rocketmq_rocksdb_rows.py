# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqRocksdbRows(KaitaiStruct):
    """Not a file: values of the column families `timer` and `trans` of `rocksdbstore/`, keys of both and of `popState` in
    `kvStore/`, and keys and the data version of `config/rdb`.
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
