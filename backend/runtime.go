package backend

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward"
)

// runtimes maps mlprodict's names of runtimes to providers.
var runtimes = map[string]Provider{
	"":                CPU,
	"python":          Reference, // node by node, every result observable
	"python_compiled": CPU,
	"onnxruntime1":    "ort",
	"onnxruntime2":    "ort",
}

// Runtime returns the backend of a runtime: one of mlprodict's "python" (node by
// node: the reference engine), "python_compiled" and "" (cpu), "onnxruntime1" and
// "onnxruntime2" (ONNX Runtime, where its driver is registered), or the name of a
// registered provider. mlprodict's onnxruntime2 runs every node in a session of its
// own; here it is the same as onnxruntime1.
func Runtime(name string) (Backend, error) {
	p, ok := runtimes[name]
	if !ok {
		p = Provider(name)
	}
	if onward.LookupProvider(string(p)) == nil {
		return nil, fmt.Errorf("backend: runtime %q needs provider %q, which is not registered; registered are %s", name, string(p), strings.Join(onward.Providers(), ", "))
	}
	return p, nil
}
