package ort_test

import (
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomControlFlowAgrees runs random models of nested control flow on cpu and their explicit
// form on ONNX Runtime, whose optimizer is off because it crashes at some of them. ONWARD_TRACE=1
// prints each model before it runs.
func TestRandomControlFlowAgrees(t *testing.T) {
	ort := config(t)
	opfuzz.Reproducible(t, "300")
	compared, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := opfuzz.DrawControlFlow(t, true)
		if os.Getenv("ONWARD_TRACE") != "" {
			fmt.Fprintln(os.Stderr, c)
		}
		explicit, err := c.Explicit()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := c.RunModel(explicit, &onward.SessionOptions{Threads: 1, OptimizationLevel: onward.OptimizeNone,
			Providers: []onward.ProviderConfig{ort}})
		if err != nil {
			if refused++; os.Getenv("ONWARD_TRACE") != "" {
				fmt.Fprintf(os.Stderr, "REFUSED %v\n", err)
			}
			return
		}
		ours, err := c.Run(&onward.SessionOptions{Threads: 1})
		if err != nil {
			t.Fatalf("cpu: %v\n%s", err, c)
		}
		for i, w := range theirs {
			for name, v := range w {
				if err := tensor.Equal(ours[i][name], v); err != nil {
					t.Fatalf("feed %d: output %s: %v\n%s", i, name, err, c)
				}
			}
		}
		compared++
	})
	t.Logf("%d models compared, %d refused by ONNX Runtime", compared, refused)
	if refused > compared/50 {
		t.Errorf("ONNX Runtime refuses %d of %d models, want at most 2 %%", refused, compared+refused)
	}
}
