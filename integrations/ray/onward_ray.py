"""Score Ray datasets with onward map: one process for each batch, and Arrow streams in between."""
import subprocess
import pyarrow as pa


class Onward:
    """For Dataset.map_batches with batch_format="pyarrow": appends the outputs of a model as columns.

    options are those of onward map, such as "--bind", "x=a,b,c". model and onward are paths on every worker.
    """

    def __init__(self, model, *options, onward="onward"):
        self.command = [onward, "map", model, *options]

    def __call__(self, table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        done = subprocess.run(self.command, input=sink.getvalue(), capture_output=True)
        if done.returncode:
            raise RuntimeError(f"onward map fails, exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
        return pa.ipc.open_stream(done.stdout).read_all()
