"""Messages between processes: how they are written, who may send them, and the links they take."""
