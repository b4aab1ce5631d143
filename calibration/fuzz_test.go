package calibration

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// FuzzQuantize checks that no model makes the quantizers panic, and that what they
// return can be written.
func FuzzQuantize(f *testing.F) {
	for _, file := range []string{"exact.onnx", "conv.onnx", "block.onnx", "nbits.onnx", "static/conv/qdq-u8s8.onnx",
		"dynamic/conv/s8.onnx"} {
		data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(file)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Large models, and all ways for each, would leave some runs a minute.
		if len(data) > 64<<10 {
			return
		}
		m, err := onnx.Unmarshal(data, &onnx.ReadOptions{MaxMemory: 1 << 20})
		if err != nil || m.Graph == nil {
			return
		}
		table := NewTable(MinMax)
		for _, n := range m.Graph.Nodes {
			for _, name := range append(n.Inputs[:len(n.Inputs):len(n.Inputs)], n.Outputs...) {
				table.Ranges[name] = Range{Lowest: -1, Highest: 2}
			}
		}
		all := ways()
		w := all[crc32.ChecksumIEEE(data)%uint32(len(all))]
		q, err := w.quantize(m, table)
		if err != nil {
			return
		}
		if _, err := q.Marshal(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	})
}
