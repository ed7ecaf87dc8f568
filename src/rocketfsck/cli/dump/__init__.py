"""What `rocketfsck dump` shows of each kind of file: items that tile the file, as rows, text or hex."""
