package backend

import (
	"github.com/onward-ml/onward/driver"
)

// runtimes maps mlprodict's names of backend classes and runtimes to providers.
var runtimes = map[string]Provider{
	"":                        CPU,
	"OnnxInferenceBackend":    CPU,
	"OnnxInferenceBackendOrt": "ort",
	"python":                  Reference, // node by node, with every result observable
	"python_compiled":         CPU,
	"onnxruntime1":            "ort",
	"onnxruntime2":            "ort",
}

// Runtime returns the backend that corresponds to a name of mlprodict.onnxrt: a class or
// a runtime. A name that mlprodict does not have is that of a registered provider. The
// rest of mlprodict.onnxrt.backend corresponds to this package as follows:
//
//	OnnxInferenceBackend        Runtime("OnnxInferenceBackend"), which is CPU
//	OnnxInferenceBackendOrt     Runtime("OnnxInferenceBackendOrt"), ONNX Runtime
//	OnnxInferenceBackendRep     Rep, and its run is Rep.Run
//	create_inference_session    Backend.NewSession
//	is_compatible               IsCompatible
//	is_opset_supported          IsOpsetSupported
//	supports_device             SupportsDevice
//	prepare                     Prepare
//	run_model                   RunModel
//	run_node                    RunNode, which mlprodict does not implement
//	runtime="python"            Runtime("python"), which is Reference
//	runtime="python_compiled"   Runtime("python_compiled"), which is CPU
//	runtime="onnxruntime1"      Runtime("onnxruntime1"), ONNX Runtime
//	runtime="onnxruntime2"      the same; mlprodict opens a session for each node
//
// ONNX Runtime needs the import of provider/ort.
func Runtime(name string) (Backend, error) {
	p, ok := runtimes[name]
	if !ok {
		p = Provider(name)
	}
	if _, err := driver.Find(string(p)); err != nil {
		return nil, invalid("runtime %q: %w", name, err)
	}
	return p, nil
}
