"""The benchmark against other libraries: `hiddenstate bench`."""
