package calibration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The files in testdata are ONNX Runtime's, recorded by testdata/record.py.

func recordedModel(t testing.TB, elem ...string) *onnx.Model {
	t.Helper()
	m, err := onnx.ReadFile(filepath.Join(append([]string{"testdata"}, elem...)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// recordedBatches reads a .npz with arrays NAME.INDEX.
func recordedBatches(t testing.TB, file string) []onward.Values {
	t.Helper()
	z, err := tensor.ReadNPZFile(filepath.Join("testdata", file), 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	var batches []onward.Values
	for _, key := range z.Names {
		name, index, _ := strings.Cut(key, ".")
		i, err := strconv.Atoi(index)
		if err != nil {
			t.Fatal(err)
		}
		for len(batches) <= i {
			batches = append(batches, onward.Values{})
		}
		batches[i][name] = z.Arrays[key]
	}
	return batches
}

func readJSON(t testing.TB, v any, elem ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, elem...)...))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}
