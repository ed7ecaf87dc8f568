"""RocksDB databases in a store, read by `rocksdict` in a process of its own. Reference 11.4."""
