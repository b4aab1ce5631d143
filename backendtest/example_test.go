package backendtest_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// addCase is a case in memory. Options.Dir loads those of the suite.
func addCase() backendtest.TestCase {
	b := onnx.NewModel("add")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Add", []string{"x", "x"}, []string{"y"})
	x := tensor.Must(tensor.New([]float32{1, 2}, 2))
	y := tensor.Must(tensor.New([]float32{2, 4}, 2))
	return backendtest.TestCase{Name: "test_add_twice", Kind: "node", Model: b.Must(),
		DataSets: []backendtest.DataSet{{Inputs: []tensor.Value{x}, Outputs: []tensor.Value{y}}},
		Rtol:     backendtest.DefaultRtol, Atol: backendtest.DefaultAtol}
}

// The sequence of ONNX's backend tests: choose cases, run them, report what is covered. In a
// test, r.Run(t) makes them subtests of `go test`.
func Example() {
	r, err := backendtest.New(backend.CPU, &backendtest.Options{Devices: []string{"CPU"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Add(addCase()); err != nil {
		log.Fatal(err)
	}
	results, err := r.Include(".*add.*").EnableReport().Results(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, res := range results {
		fmt.Println(res.Category, res.Name, res.Status)
	}
	fmt.Println(backendtest.Count(results))
	if err := r.Coverage().WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// OnnxBackendNodeModelTest test_add_twice_cpu passed
	// 1 passed, 0 failed, 0 skipped
	// ---------- onnx coverage: ----------
	// Operators (passed/loaded/total): 1/1/226
	// ------------------------------------
	// Operator  Attributes
	//           (name: #values)
	// Add       No attributes
}
