"""Score Spark data frames with onward map: one process per task, and Arrow streams in between."""
import os, subprocess, tempfile, threading
import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema


def onward_map(df, model, *options, onward="onward"):
    """Return df with the outputs of a model as further columns.

    options are those of onward map, such as "--bind", "x=a,b,c". model and onward are paths on
    every worker, or names of files that SparkContext.addFile has distributed.
    """
    schema = to_arrow_schema(df.schema)
    with _process(onward, model, options, schema, iter(())) as result:
        columns = from_arrow_schema(result.schema)

    def score(batches):
        with _process(onward, model, options, schema, batches) as result:
            yield from result

    return df.mapInArrow(score, columns)


def _find(name):
    """Return the path of a distributed file, or the name itself."""
    path = SparkFiles.get(name) if "/" not in name else name
    return path if os.path.exists(path) else name


class _process:
    """A process of onward map that is fed with record batches."""

    def __init__(self, onward, model, options, schema, batches):
        command = [_find(onward), "map", _find(model), *options]
        self.log, self.failure = tempfile.TemporaryFile(), None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.feeder = threading.Thread(target=self._feed, args=(schema, batches), daemon=True)

    def _feed(self, schema, batches):
        try:
            with self.process.stdin as pipe, pa.ipc.new_stream(pipe, schema) as stream:
                for batch in batches:
                    stream.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        except BrokenPipeError:
            pass  # the process has ended, and its exit code says why
        except BaseException as error:  # of the batches: the process must not take this for their end
            self.failure = error
            self.process.kill()

    def __enter__(self):
        self.feeder.start()
        try:
            return pa.ipc.open_stream(self.process.stdout)
        except pa.ArrowInvalid:
            self.__exit__(None, None, None)
            raise

    def __exit__(self, kind, value, trace):
        if kind is not None and not issubclass(kind, pa.ArrowException):
            self.process.kill()  # the reader has stopped early
            return
        code = self.process.wait()
        self.feeder.join()
        if self.failure is not None:
            raise self.failure
        if code != 0:
            self.log.seek(0)
            task = TaskContext.get()
            where = f" in partition {task.partitionId()}" if task else ""
            raise RuntimeError(f"onward map fails{where}, exit code {code}: {self.log.read().decode(errors='replace').strip()}")
