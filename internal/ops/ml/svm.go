package ml

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// svmKernel is a kernel function of two feature vectors: LINEAR x·y, POLY (γ·x·y + c)^d,
// RBF exp(−γ|x−y|²), SIGMOID tanh(γ·x·y + c).
type svmKernel struct {
	kind                 string
	gamma, coef0, degree float64
}

func readSVMKernel(a *kit.Attrs) svmKernel {
	k := svmKernel{kind: a.Enum("kernel_type", "LINEAR", "LINEAR", "POLY", "RBF", "SIGMOID")}
	switch p := a.Floats("kernel_params"); len(p) {
	case 0:
	case 3:
		k.gamma, k.coef0, k.degree = float64(p[0]), float64(p[1]), float64(p[2])
	default:
		a.Errorf("kernel_params has %d elements, want gamma, coef0 and degree", len(p))
	}
	return k
}

func (k *svmKernel) eval(x []float64, y []float32) float64 {
	y = y[:len(x)]
	s := 0.0
	if k.kind == "RBF" {
		for i, v := range x {
			d := v - float64(y[i])
			s += d * d
		}
		return math.Exp(-k.gamma * s)
	}
	for i, v := range x {
		s += v * float64(y[i])
	}
	switch k.kind {
	case "POLY":
		return math.Pow(k.gamma*s+k.coef0, k.degree)
	case "SIGMOID":
		return math.Tanh(k.gamma*s + k.coef0)
	}
	return s
}

// svmRows calls fn for every row of input 0, [N, F] or [F], in parallel. scratch has per
// elements.
func svmRows(c *ir.Call, n, cols, per int, fn func(i int, x, scratch []float64)) error {
	x, err := mlNumbersAs[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	scratch, err := ir.ScratchOf[float64](c, kit.WorkspaceCount(n)*per)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, n, func(ws, i int) error {
		fn(i, x[i*cols:][:cols], scratch[ws*per:][:per])
		return nil
	})
}

// svmColumns checks the number of elements of vectors feature vectors of cols columns.
func svmColumns(numbers, vectors, cols int, name string) error {
	if vectors == 0 || cols > math.MaxInt/vectors || numbers != vectors*cols {
		return fmt.Errorf("%s has %d elements, want %d × %d: one per vector and column of X", name, numbers, vectors, cols)
	}
	return nil
}
