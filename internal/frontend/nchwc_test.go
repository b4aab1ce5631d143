package frontend_test

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/internal/ops/nchwc"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// filter returns a blocked filter whose elements count up in the plain layout.
func filter(block, m, c, kh, kw int) *tensor.Tensor {
	data, per, i := make([]float32, m*c*kh*kw), 1, 0
	if c >= block {
		per = block
	}
	for mo := 0; mo < m; mo += block {
		for co := 0; co < c; co += per {
			for k := range kh * kw {
				for ci := range per {
					for mi := range block {
						data[i] = float32(((mo+mi)*c+co+ci)*kh*kw + k)
						i++
					}
				}
			}
		}
	}
	return tensor.Must(tensor.New(data, m, c, kh, kw))
}

type conv struct {
	m, c   int // of the filter
	groups int
}

// nchwcModel makes a chain of convolutions, after a ReorderInput if reorder is set, and a
// ReorderOutput before the output.
func nchwcModel(block, in, channels int, reorder bool, chain ...conv) *onnx.Model {
	b := onnx.NewModel("blocks").Opset("", 17).Opset(kit.DomainNchwc, 1)
	b.Input("x", onnx.Float, 1, in, 4, 4)
	x := "x"
	if reorder {
		b.Node("ReorderInput", []string{x}, []string{"r"}).Domain(kit.DomainNchwc)
		x = "r"
	}
	for i, c := range chain {
		w, y := "w"+string(rune('0'+i)), "y"+string(rune('0'+i))
		b.Initializer(w, filter(block, c.m, c.c, 1, 2))
		b.Node("Conv", []string{x, w}, []string{y}, onnx.Attrs{"group": c.groups}).Domain(kit.DomainNchwc)
		x = y
	}
	b.Node("ReorderOutput", []string{x}, []string{"y"}, onnx.Attrs{"channels": channels}).Domain(kit.DomainNchwc)
	b.Output("y", onnx.Float)
	return b.Must()
}

func TestBlocksOfNchwcModels(t *testing.T) {
	machine := nchwc.MachineBlock()
	for _, c := range []struct {
		name         string
		block        int // of the filters
		in, channels int
		reorder      bool
		chain        []conv
		want         string // part of the error
	}{
		{"nothing tells", machine, 3, 32, false, []conv{{32, 3, 1}, {32, 32, 1}}, ""},
		{"filters that are no multiple of 16", 8, 3, 24, false, []conv{{24, 3, 1}, {24, 24, 1}}, ""},
		{"channels that are no multiple of 16", 8, 24, 32, true, []conv{{32, 24, 1}}, ""},
		{"8 channels in blocks", 8, 8, 32, true, []conv{{32, 8, 1}}, ""},
		{"8 channels of the input", 16, 8, 32, false, []conv{{32, 8, 1}}, ""},
		{"12 channels of the input", 16, 12, 32, false, []conv{{32, 12, 1}}, ""},
		{"filters rounded up", 16, 3, 20, false, []conv{{32, 3, 1}}, ""},
		{"groups of 8", 8, 16, 16, true, []conv{{16, 8, 2}}, ""},
		{"both", 4, 12, 24, false, []conv{{32, 12, 1}, {24, 32, 1}}, "in blocks of 8, node"},
		{"none", 4, 3, 20, false, []conv{{20, 3, 1}}, "M a multiple of the block size 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := frontend.Convert(nchwcModel(c.block, c.in, c.channels, c.reorder, c.chain...), frontend.Options{})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			filters := 0
			for _, n := range g.Nodes {
				if _, ok := n.Op.(*msft.ActivatedConv); !ok {
					continue
				}
				filters++
				for i, v := range tensor.MustData[float32](g.Values[n.In[1]].Const.(*tensor.Tensor)) {
					if v != float32(i) {
						t.Fatalf("element %d of a filter is %v", i, v)
					}
				}
			}
			if filters != len(c.chain) {
				t.Errorf("%d filters are in the plain layout, want %d", filters, len(c.chain))
			}
		})
	}
}
