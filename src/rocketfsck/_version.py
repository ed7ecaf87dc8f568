"""The version of this package, for its parts: the package itself names them all."""

__version__ = "1.0.0rc1"
