# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqRocksdbConsumequeue(KaitaiStruct):
    """Not a file: keys and values of the column families `default` (unit_key, unit) and `offset` (bound_key, bound).
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqRocksdbConsumequeue, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        pass


    def _fetch_instances(self):
        pass

    class Bound(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbConsumequeue.Bound, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.phy_offset = self._io.read_s8be()
            self.cq_offset = self._io.read_s8be()


        def _fetch_instances(self):
            pass


    class BoundKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbConsumequeue.BoundKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.name = RocketmqRocksdbConsumequeue.TopicName(self._io, self, self._root)
            self.bound = self._io.read_bytes(3)
            if not  ((self.bound == b"\x6D\x61\x78") or (self.bound == b"\x6D\x69\x6E")) :
                raise kaitaistruct.ValidationNotAnyOfError(self.bound, self._io, u"/types/bound_key/seq/1")
            self.bound_end = self._io.read_bytes(1)
            if not self.bound_end == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.bound_end, self._io, u"/types/bound_key/seq/2")
            self.queue_id = self._io.read_s4be()
            self.key_end = self._io.read_bytes(0)
            _ = self.key_end
            if not self._io.is_eof():
                raise kaitaistruct.ValidationExprError(self.key_end, self._io, u"/types/bound_key/seq/4")


        def _fetch_instances(self):
            pass
            self.name._fetch_instances()


    class TopicName(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbConsumequeue.TopicName, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_topic = self._io.read_s4be()
            if not self.len_topic >= 0:
                raise kaitaistruct.ValidationLessThanError(0, self.len_topic, self._io, u"/types/topic_name/seq/0")
            self.separator = self._io.read_bytes(1)
            if not self.separator == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.separator, self._io, u"/types/topic_name/seq/1")
            self.topic = self._io.read_bytes(self.len_topic)
            self.topic_end = self._io.read_bytes(1)
            if not self.topic_end == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.topic_end, self._io, u"/types/topic_name/seq/3")


        def _fetch_instances(self):
            pass


    class Unit(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbConsumequeue.Unit, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.phy_offset = self._io.read_s8be()
            self.size = self._io.read_s4be()
            self.tags_code = self._io.read_s8be()
            self.store_time = self._io.read_s8be()


        def _fetch_instances(self):
            pass


    class UnitKey(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqRocksdbConsumequeue.UnitKey, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.name = RocketmqRocksdbConsumequeue.TopicName(self._io, self, self._root)
            self.queue_id = self._io.read_s4be()
            self.queue_id_end = self._io.read_bytes(1)
            if not self.queue_id_end == b"\x01":
                raise kaitaistruct.ValidationNotEqualError(b"\x01", self.queue_id_end, self._io, u"/types/unit_key/seq/2")
            self.cq_offset = self._io.read_s8be()
            self.key_end = self._io.read_bytes(0)
            _ = self.key_end
            if not self._io.is_eof():
                raise kaitaistruct.ValidationExprError(self.key_end, self._io, u"/types/unit_key/seq/4")


        def _fetch_instances(self):
            pass
            self.name._fetch_instances()
