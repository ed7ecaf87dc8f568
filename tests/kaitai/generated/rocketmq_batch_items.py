# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from . import rocketmq_properties


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class RocketmqBatchItems(KaitaiStruct):
    """The body of an inner batch record (sysFlag 0x80), and the form in which a producer sends a batch: items
    one after the other, to the end of the body. Magic and CRC are written as 0.
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(RocketmqBatchItems, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.items = []
        i = 0
        while not self._io.is_eof():
            self.items.append(RocketmqBatchItems.Item(self._io, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.items)):
            pass
            self.items[i]._fetch_instances()


    class Item(KaitaiStruct):
        def __init__(self, _io, _parent=None, _root=None):
            super(RocketmqBatchItems.Item, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.total_size = self._io.read_s4be()
            if not self.total_size >= 22:
                raise kaitaistruct.ValidationLessThanError(22, self.total_size, self._io, u"/types/item/seq/0")
            self.magic_code = self._io.read_s4be()
            self.body_crc = self._io.read_s4be()
            self.flag = self._io.read_s4be()
            self.body_length = self._io.read_s4be()
            if not self.body_length >= 0:
                raise kaitaistruct.ValidationLessThanError(0, self.body_length, self._io, u"/types/item/seq/4")
            self.body = self._io.read_bytes(self.body_length)
            self.properties_length = self._io.read_s2be()
            _ = self.properties_length
            if not  ((self.properties_length >= 0) and (self.total_size == (22 + self.body_length) + self.properties_length)) :
                raise kaitaistruct.ValidationExprError(self.properties_length, self._io, u"/types/item/seq/6")
            self._raw_properties = self._io.read_bytes(self.properties_length)
            _io__raw_properties = KaitaiStream(BytesIO(self._raw_properties))
            self.properties = rocketmq_properties.RocketmqProperties(_io__raw_properties)


        def _fetch_instances(self):
            pass
            self.properties._fetch_instances()
