"""Tables that cache rows of a database, and hold the changes that it does not have yet."""
