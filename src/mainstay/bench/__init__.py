"""What Mainstay can do on this machine, measured in about a minute: ``mainstay bench``.

The jobs are ordinary ones, written with the public interface and run on Spark as any other.
"""
