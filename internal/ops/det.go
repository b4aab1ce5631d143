package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// Det computes the determinants of the innermost matrices.
type Det struct{}

var _ = register(Def{Name: "Det", Since: []int{11, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Det{} })})

// Infer drops the last two dimensions.
func (*Det) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	s := c.Shape(0)
	if s == nil {
		return nil
	}
	n := len(s) - 2
	if n < 0 {
		return fmt.Errorf("input has rank %d, want at least 2", len(s))
	}
	if s[n].Differs(s[n+1]) {
		return fmt.Errorf("matrices are %s×%s, want square ones", s[n], s[n+1])
	}
	t.Shape = append([]ir.Dim{}, s[:n]...)
	return nil
}

// Run eliminates with partial pivoting, in double.
func (*Det) Run(c *ir.Call) error {
	t := c.Tensor(0)
	s := t.Shape()
	n := len(s) - 2
	if n < 0 || s[n] != s[n+1] {
		return fmt.Errorf("input has shape %v, want square matrices", s)
	}
	x, err := realIn[float64](c, t)
	if err != nil {
		return err
	}
	y, err := realOut[float64](c, 0, t.DType(), s[:n]...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	m := s[n]
	work, err := ir.ScratchOf[float64](c, slotCount(len(y.data))*m*m)
	if err != nil {
		return err
	}
	err = inSlots(c, len(y.data), func(slot, i int) error {
		a := work[slot*m*m:][:m*m]
		copy(a, x[i*m*m:])
		d, err := determinant(c, a, m)
		y.data[i] = d
		return err
	})
	if err == nil {
		y.store()
	}
	return err
}

// determinant overwrites an m×m matrix and returns its determinant.
func determinant(c *ir.Call, a []float64, m int) (float64, error) {
	det := 1.0
	meter := &meter{c: c}
	for k := range m {
		p := k
		for i := k + 1; i < m; i++ {
			if math.Abs(a[i*m+k]) > math.Abs(a[p*m+k]) {
				p = i
			}
		}
		if p != k {
			det = -det
			for j := k; j < m; j++ {
				a[p*m+j], a[k*m+j] = a[k*m+j], a[p*m+j]
			}
		}
		pivot := a[k*m+k]
		det *= pivot
		if pivot == 0 {
			return 0, nil
		}
		row := a[k*m+k+1 : (k+1)*m]
		for i := k + 1; i < m; i++ {
			f := a[i*m+k] / pivot
			for j, v := range row {
				a[i*m+k+1+j] -= f * v
			}
			if !meter.spend(m - k) {
				return 0, c.Err()
			}
		}
	}
	return det, nil
}
