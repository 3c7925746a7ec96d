"""PySpark's own stateful functions as operators of a job: ``StatefulProcessor`` in rows and in
pandas, and the functions of ``applyInPandasWithState``. None of it needs a Spark session."""
