"""The broker's four query paths, offline, and what a broker would do on start. Reference 4.7, 6 and 7."""
