package hostile

import (
	"context"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// TestLongChainsDoNotRecurse opens chains of operators with a stack on which no search may recurse
// once per node. A stack overflow ends the process.
func TestLongChainsDoNotRecurse(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(4 << 20))
	const n = 60_000
	links := func(g *onnx.ModelBuilder, from string) string {
		for i := range n {
			to := "v" + strconv.Itoa(i)
			g.Node([]string{"Abs", "Tanh"}[i%2], []string{from}, []string{to})
			from = to
		}
		return from
	}
	for name, build := range map[string]func(b *onnx.ModelBuilder){
		"before a Gather": func(b *onnx.ModelBuilder) {
			b.Input("x", onnx.Float, "N", 4).Initializer("i", []int64{0}).Output("y", onnx.Float, nil, nil)
			b.Node("Gather", []string{links(b, "x"), "i"}, []string{"y"}, onnx.Attrs{"axis": 0})
		},
		"between DequantizeLinear and QuantizeLinear": func(b *onnx.ModelBuilder) {
			b.Input("x", onnx.Uint8, "N", 4).Initializer("s", float32(0.5)).Initializer("z", uint8(1))
			b.Output("y", onnx.Uint8, nil, nil)
			b.Node("DequantizeLinear", []string{"x", "s", "z"}, []string{"f"})
			b.Node("QuantizeLinear", []string{links(b, "f"), "s", "z"}, []string{"y"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := onnx.NewModel("m").Opset("", 21)
			build(b)
			s, err := onward.OpenModel(context.Background(), b.Must(), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		})
	}
}
