# A model server of KServe that runs an ONNX file with ONNX Runtime, for the comparison in docs/serving.md.
import argparse

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server


class OnnxModel(Model):
    def __init__(self, name, path):
        super().__init__(name)
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.ready = True

    def predict(self, request, headers=None, response_headers=None):
        feed = {i.name: i.as_numpy() for i in request.inputs}
        outputs = []
        for name, value in zip(self.outputs, self.session.run(None, feed)):
            o = InferOutput(name, list(value.shape), {"float32": "FP32", "int64": "INT64"}[str(value.dtype)])
            o.set_data_from_numpy(value, binary_data=True)
            outputs.append(o)
        return InferResponse(request.id or "", self.name, outputs)


parser = argparse.ArgumentParser(parents=[model_server.parser])
parser.add_argument("--model")
args, _ = parser.parse_known_args()
ModelServer().start([OnnxModel(args.model_name, args.model)])
