package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// DynamicTimeWarping finds the cheapest path from the first to the last element of a cost
// matrix, [M N] or [1 M N], by steps down, right and diagonal. It returns the row and
// column indices of the path, [2 length]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicTimeWarping).
type DynamicTimeWarping struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DynamicTimeWarping", Since: kit.Versions{1},
	In: "input:F", Out: "output:I",
	Class: kit.ClassOther,
	Types: "F: float; I: int32", Build: kit.WithoutAttrs[DynamicTimeWarping]})

// Infer sets the type; the length of the path depends on the costs.
func (*DynamicTimeWarping) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) != 2 && len(s) != 3 {
		return fail.Errorf("input has rank %d, want 2 or 3", len(s))
	}
	c.SetOut(0, ir.TensorType(tensor.TypeInt32, ir.Known(2), ir.Unknown))
	return nil
}

// Run fills the table of accumulated costs and traces the path back.
func (*DynamicTimeWarping) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) == 3 && s[0] == 1 {
		s = s[1:]
	}
	if len(s) != 2 || x.Len() == 0 || s[0] > math.MaxInt32 || s[1] > math.MaxInt32 {
		return fail.Errorf("input has shape %v, want [M N] or [1 M N], not empty", x.Shape())
	}
	rows, cols, cost := s[0], s[1], tensor.MustData[float32](x)
	steps, err := ir.ScratchOf[uint8](c, rows*cols)
	if err != nil {
		return err
	}
	lines, err := ir.ScratchOf[float32](c, 2*(cols+1))
	if err != nil {
		return err
	}
	inf := float32(math.Inf(1))
	above, line := lines[:cols+1], lines[cols+1:]
	kit.RepeatOf(above, inf)
	above[0] = 0
	for i := range rows {
		if err := c.Err(); err != nil {
			return err
		}
		line[0] = inf
		for j := range cols {
			both, down, right := above[j], above[j+1], line[j]
			best, step := right, uint8(2)
			switch {
			case both < down && both < right:
				best, step = both, 0
			case down < both && down < right:
				best, step = down, 1
			}
			line[j+1], steps[i*cols+j] = cost[i*cols+j]+best, step
		}
		above, line = line, above
	}
	var path [][2]int32
	for i, j := rows-1, cols-1; i >= 0 || j >= 0; {
		path = append(path, [2]int32{int32(i), int32(j)})
		step := uint8(1) // default: step up, for the column before the first
		switch {
		case i < 0:
			step = 2
		case j >= 0:
			step = steps[i*cols+j]
		}
		if step != 2 {
			i--
		}
		if step != 1 {
			j--
		}
	}
	y, err := c.Output(0, tensor.TypeInt32, 2, len(path))
	if err != nil {
		return err
	}
	dst := tensor.MustData[int32](y)
	for k, p := range path {
		at := len(path) - 1 - k
		dst[at], dst[len(path)+at] = p[0], p[1]
	}
	return nil
}
