"""What the commands found, as text."""
