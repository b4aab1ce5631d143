// Package backendtest runs the ONNX backend test suite
// (https://github.com/onnx/onnx/blob/main/docs/OnnxBackendTest.md) on a backend,
// as subtests of `go test` or as a list of results, and reports which operators
// passed.
//
//	func TestONNX(t *testing.T) {
//		r, err := backendtest.New(backend.CPU, &backendtest.Options{Dir: "…/onnx/backend/test/data"})
//		if err != nil {
//			t.Fatal(err)
//		}
//		r.Include("_add_").Exclude("_uint8").Run(t)
//	}
package backendtest
