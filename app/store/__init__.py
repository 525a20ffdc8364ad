"""The records: the only room that holds a database connection. See models.py for the tables, writer.py for who writes."""
