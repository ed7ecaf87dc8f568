"""Bytes <-> values of every structure in a RocketMQ store. No I/O and no judgement.

Binary layouts are declared once, with construct, under RocketMQ's own field names (`layout`); NumPy dtypes,
Arrow schemas, field offsets and the tables of the specification are derived from the declaration. Encoding
and decoding are exact inverses. Bytes that do not decode raise `rocketfsck.errors.FormatError` with the
offset of the field at fault, and a length leads to an allocation only if it was checked against the bytes at
hand.

Importing this package imports nothing else: take what is needed from its modules. `javatext`, `properties`,
`magic`, `filename`, `smallfiles`, `dialect`, `messageid` and `config` need only the standard library.
"""
