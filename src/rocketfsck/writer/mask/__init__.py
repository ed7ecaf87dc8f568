"""A copy of a store without its data: names, keys, properties, hosts and bodies change, their lengths stay.

`names.py` has the pseudonyms, `record.py` the bytes of a record, `tree.py` the copy of the store. Sizes,
places, hashes and checksums stay, so that a check finds in the copy what it finds in the store.
"""
