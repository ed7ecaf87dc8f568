"""What `rocketfsck query` shows, and how: one module for each form of answer."""
