"""The answers of a running broker, version by version. Reference 7."""
