package window

import (
	"testing"

	"github.com/onward-ml/onward/internal/ir"
)

func TestWindowDims(t *testing.T) {
	w := Window{AutoPad: "NOTSET", Kernel: []int{3, 3}, Strides: []int{1, 2}, Pads: []int{1, 1, 1, 1}}
	got, err := w.outDims([]ir.Dim{ir.Symbol("H"), ir.Symbol("W")}, ir.Dims(w.Kernel))
	if err != nil || got[0] != ir.Symbol("H") || got[1].IsUnknown() {
		t.Errorf("got %v, %v", got, err)
	}
}
