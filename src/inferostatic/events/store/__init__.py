"""Events in a folder of Parquet files, made by any number of processes and read by any tool."""
