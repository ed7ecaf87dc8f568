"""From a message to the record that a broker makes of it."""
