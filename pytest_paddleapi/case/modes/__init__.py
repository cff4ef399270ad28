"""One file per mode; each turns a prepared case into a verdict."""
