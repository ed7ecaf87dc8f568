"""The config file `rocketfsck.toml`: where it is, what may be set in it, what is in force."""
