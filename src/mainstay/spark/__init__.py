"""Mainstay on Spark: workers as barrier tasks of a Spark job. Only this package needs PySpark."""
