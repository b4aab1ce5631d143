package calibration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// FuzzQuantize checks that no model makes the quantizers panic, and that what they
// return can be written.
func FuzzQuantize(f *testing.F) {
	for _, file := range []string{"exact.onnx", "conv.onnx", "block.onnx", "nbits.onnx", "static/conv/qdq-u8s8.onnx", "dynamic/conv/s8.onnx"} {
		data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(file)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Unmarshal(data, nil)
		if err != nil || m.Graph == nil {
			return
		}
		table := NewTable(MinMax)
		for _, n := range m.Graph.Nodes {
			for _, name := range append(n.Inputs[:len(n.Inputs):len(n.Inputs)], n.Outputs...) {
				table.Ranges[name] = Range{Lowest: -1, Highest: 2}
			}
		}
		for _, w := range ways() {
			q, err := w.quantize(m, table)
			if err != nil {
				continue
			}
			if _, err := q.Marshal(); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	})
}
