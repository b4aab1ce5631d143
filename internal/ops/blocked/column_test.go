package blocked

import (
	"testing"

	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// TestConvTurnsColumns checks which convolutions of images of width 1 have a kernel for images of
// height 1.
func TestConvTurnsColumns(t *testing.T) {
	const c, length = 32, 40
	weights := tensor.Must(tensor.Zeros(tensor.TypeFloat32, c, c, 5, 1))
	cv := &ops.Conv{Window: window.Window{AutoPad: "NOTSET", Pads: []int{2, 0, 2, 0}}, Group: 1}
	column, side := NewLayout(c, length, 1, 2, 0, 2, 0), NewLayout(c, length, 1, 2, 1, 2, 0)
	for _, test := range []struct {
		name    string
		in, out Layout
		add     *Layout
		turned  bool
	}{
		{"without a border beside it", column, column, nil, true},
		{"with a residual", column, column, &column, true},
		{"with a border of the input beside it", side, column, nil, false},
		{"with a border of the output beside it", column, side, nil, false},
		{"with a border of the residual beside it", column, column, &side, false},
	} {
		v, err := NewConv(cv, weights, nil, test.in, test.out, test.add, kit.Activation{}, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		d := v.kernel.(*conv.Direct)
		if v.turned != test.turned || d.Out.H == 1 != test.turned || d.Out.Len() != test.out.Len() {
			t.Errorf("%s: turned %t, the kernel has images of %d×%d", test.name, v.turned, d.Out.H, d.Out.W)
		}
	}
}
