// Package bandwidth measures the bandwidth of the processor's memory, and counts the bytes of
// weights that a run of a model reads.
package bandwidth

import (
	"strings"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Meter measures the bytes per second that threads read from 256 MB, by products of a matrix and a
// vector.
type Meter struct {
	data, x, y []float32
}

// NewMeter allocates the matrix.
func NewMeter() *Meter {
	m := &Meter{x: make([]float32, 1024), y: make([]float32, 64<<10)}
	m.data = memory.FromRaw[float32](memory.Lasting(memory.Aligned(4 * len(m.x) * len(m.y))))
	for i := range m.data {
		m.data[i] = 1
	}
	return m
}

// Rate returns the bytes per second of the fastest of four products.
func (m *Meter) Rate(threads int) (best float64) {
	for range 4 {
		start := cputime.Now()
		var wg sync.WaitGroup
		for k := range threads {
			lo, hi := k*len(m.y)/threads, (k+1)*len(m.y)/threads
			wg.Go(func() {
				g := &gemm.Args[float32]{M: 1, N: hi - lo, K: len(m.x), A: m.x, LdA: len(m.x),
					B: m.data[lo*len(m.x):], LdB: len(m.x), TransB: true, C: m.y[lo:hi], LdC: hi - lo}
				gemm.F32(cpu.Active(), g, g.Whole())
			})
		}
		wg.Wait()
		best = max(best, float64(len(m.data))*4/start.ElapsedBy(threads).Seconds())
	}
	return best
}

// Weights returns the bytes of the initializers and Constants that a run of a graph and its
// subgraphs reads, each once. Those of which operators read some rows only, such as embeddings,
// are not included.
func Weights(g *onnx.Graph) int64 {
	rows := map[string]bool{} // whether all readers read rows
	var readers func(g *onnx.Graph)
	readers = func(g *onnx.Graph) {
		for _, n := range g.Nodes {
			byRow := strings.HasPrefix(n.OpType, "Gather") || n.OpType == "GroupQueryAttention" ||
				n.OpType == "RotaryEmbedding"
			for _, in := range n.Inputs {
				if r, ok := rows[in]; !ok || r {
					rows[in] = byRow
				}
			}
			for _, s := range n.Subgraphs() {
				readers(s)
			}
		}
	}
	readers(g)
	var count func(g *onnx.Graph) int64
	count = func(g *onnx.Graph) (total int64) {
		add := func(name string, t *onnx.Tensor) {
			n := int64(tensor.DType(t.DataType).Bits())
			for _, d := range t.Dims {
				n *= d
			}
			if !rows[name] {
				total += (n + 7) / 8
			}
		}
		for _, t := range g.Initializers {
			add(t.Name, t)
		}
		for _, n := range g.Nodes {
			for _, a := range n.Attributes {
				if n.OpType == "Constant" && a.T != nil {
					add(n.Outputs[0], a.T)
				}
			}
			for _, s := range n.Subgraphs() {
				total += count(s)
			}
		}
		return total
	}
	return count(g)
}
