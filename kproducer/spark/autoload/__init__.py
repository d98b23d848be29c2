"""What makes installs show the sink to Spark. Nothing to import from here at run time."""
