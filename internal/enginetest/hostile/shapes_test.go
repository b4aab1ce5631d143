package hostile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// sized lists operators that make y from x [1, 1, 4, 4] and the sizes z.
var sized = map[string]func(b *onnx.ModelBuilder){
	"Resize":          func(b *onnx.ModelBuilder) { b.Node("Resize", []string{"x", "", "", "z"}, []string{"y"}) },
	"Expand":          func(b *onnx.ModelBuilder) { b.Node("Expand", []string{"x", "z"}, []string{"y"}) },
	"ConstantOfShape": func(b *onnx.ModelBuilder) { b.Node("ConstantOfShape", []string{"z"}, []string{"y"}) },
	"Reshape":         func(b *onnx.ModelBuilder) { b.Node("Reshape", []string{"x", "z"}, []string{"y"}) },
	"Tile":            func(b *onnx.ModelBuilder) { b.Node("Tile", []string{"x", "z"}, []string{"y"}) },
	"CenterCropPad":   func(b *onnx.ModelBuilder) { b.Node("CenterCropPad", []string{"x", "z"}, []string{"y"}) },
	"AffineGrid": func(b *onnx.ModelBuilder) {
		b.Initializer("theta", tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 2, 3)))
		b.Node("AffineGrid", []string{"theta", "z"}, []string{"y"})
	},
	"MaxUnpool": func(b *onnx.ModelBuilder) {
		b.Initializer("i", tensor.Must(tensor.Zeros(tensor.TypeInt64, 1, 1, 4, 4)))
		b.Node("MaxUnpool", []string{"x", "i", "z"}, []string{"y"}, onnx.Attrs{"kernel_shape": []int64{2, 2}})
	},
	"Col2Im": func(b *onnx.ModelBuilder) {
		b.Initializer("columns", tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 4, 3)))
		b.Initializer("block", []int64{2, 2}).Initializer("from", []int64{2}).Initializer("to", []int64{4})
		b.Node("Slice", []string{"z", "from", "to"}, []string{"image"})
		b.Node("Col2Im", []string{"columns", "image", "block"}, []string{"y"})
	},
	"Split": func(b *onnx.ModelBuilder) {
		b.Initializer("from", []int64{2}).Initializer("to", []int64{4})
		b.Node("Slice", []string{"z", "from", "to"}, []string{"parts"})
		b.Node("Split", []string{"x", "parts"}, []string{"y", "rest"}, onnx.Attrs{"axis": 2})
	},
	"Slice": func(b *onnx.ModelBuilder) {
		b.Initializer("starts", []int64{1, 1, 1, 1})
		b.Node("Slice", []string{"x", "starts", "z"}, []string{"y"})
	},
	"Pad": func(b *onnx.ModelBuilder) {
		b.Initializer("zeros", []int64{0, 0, 0, 0})
		b.Node("Concat", []string{"zeros", "z"}, []string{"pads"}, onnx.Attrs{"axis": 0})
		b.Node("Pad", []string{"x", "pads"}, []string{"y"})
	},
}

// TestShapesAreNeverNegative reads only the shape of a value whose sizes are drawn, some of them
// negative: constants, an input, or computed from the shape of x. No size of the result is
// negative. What reference accepts, cpu accepts with the same result. The reverse does not hold:
// cpu does not run a node of which only the shape is used, and so misses errors of its contents.
func TestShapesAreNeverNegative(t *testing.T) {
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 1, 4, 4))
	draws := 12
	if testing.Short() {
		draws = 3
	}
	r := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for name, add := range sized {
		for draw := range draws * 3 {
			sizes := []int64{1, 1, 4, 4}
			for range 1 + r.IntN(2) {
				sizes[r.IntN(4)] = int64(r.IntN(12) - 6)
			}
			b := onnx.NewModel("m").Opset("", 22)
			b.Output("s", onnx.Int64, nil)
			feed := onward.Values{"x": x}
			dims := []any{1, 1, 4, 4}
			if draw%2 == 1 {
				dims = []any{"a", "b", "c", "d"}
			}
			b.Input("x", onnx.Float, dims...)
			switch draw % 3 {
			case 0:
				b.Initializer("z", sizes)
			case 1:
				b.Input("z", onnx.Int64, 4)
				feed["z"] = tensor.Must(tensor.New(sizes, 4))
			default:
				b.Initializer("d", []int64{sizes[0] - 1, sizes[1] - 1, sizes[2] - 4, sizes[3] - 4})
				b.Node("Shape", []string{"x"}, []string{"sx"})
				b.Node("Add", []string{"sx", "d"}, []string{"z"})
			}
			add(b)
			b.Node("Shape", []string{"y"}, []string{"s"})
			m := b.Must()
			var got [2][]int64
			var errs [2]error
			for i, p := range []string{"reference", "cpu"} {
				s, err := onward.OpenModel(t.Context(), m,
					&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}})
				if err == nil {
					var out onward.Values
					if out, err = s.Run(t.Context(), feed, nil); err == nil {
						got[i] = tensor.MustData[int64](out["s"].(*tensor.Tensor))
					}
					s.Close()
				}
				errs[i] = err
			}
			switch {
			case errs[1] == nil && slices.Min(got[1]) < 0:
				t.Errorf("%s, sizes %v, form %d: the shape is %v", name, sizes, draw%3, got[1])
			case errs[0] == nil && (errs[1] != nil || !slices.Equal(got[0], got[1])):
				t.Errorf("%s, sizes %v, form %d: reference %v %v, cpu %v %v", name, sizes, draw%3, got[0], errs[0],
					got[1], errs[1])
			case errs[0] != nil:
				refused++
			default:
				accepted++
			}
		}
	}
	if accepted < refused/10 || refused < accepted/10 {
		t.Errorf("%d draws are accepted and %d refused, want both often", accepted, refused)
	}
}
