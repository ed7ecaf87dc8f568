"""Where stores are: paths of this machine, and remote file systems through fsspec."""
