package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
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

// eval writes the function of each row of x and each of count vectors to out. Rows and vectors have cols elements.
func (k *svmKernel) eval(c *ir.Call, out, x []float64, cols, count int, vectors []float32) {
	for r := range len(out) / count {
		x, out := x[r*cols:][:cols], out[r*count:][:count]
		for j := range out {
			y, s := vectors[j*cols:][:cols], 0.0
			if k.kind == "RBF" {
				for i, v := range x {
					d := v - float64(y[i])
					s += d * d
				}
				out[j] = -k.gamma * s
				continue
			}
			for i, v := range x {
				s += v * float64(y[i])
			}
			switch out[j] = s; k.kind {
			case "POLY":
				out[j] = math.Pow(k.gamma*s+k.coef0, k.degree)
			case "SIGMOID":
				out[j] = k.gamma*s + k.coef0
			}
		}
	}
	switch {
	case k.kind == "RBF" && c.Generic:
		for j, v := range out {
			out[j] = math.Exp(v)
		}
	case k.kind == "RBF":
		vec.ExpF64(cpu.Active(), out, out)
	case k.kind == "SIGMOID" && c.Generic:
		for j, v := range out {
			out[j] = math.Tanh(v)
		}
	case k.kind == "SIGMOID": // tanh(v) = 1 - 2/(exp(2v)+1), with an absolute error near 1e-16
		for j, v := range out {
			out[j] = 2 * v
		}
		vec.ExpF64(cpu.Active(), out, out)
		for j, v := range out {
			out[j] = 1 - 2/(v+1)
		}
	}
}

// svmRows calls fn for every row of input 0, [N, F] or [F], in parallel, with the kernel function of the row and count vectors.
// scratch has per elements.
func svmRows(c *ir.Call, k *svmKernel, n, cols, count int, vectors []float32, per int, fn func(i int, kernels, scratch []float64)) error {
	x, err := mlNumbersAs[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	block := max(1, 256/max(1, count)) // rows of which the functions are computed at once
	blocks, each := (n+block-1)/block, block*count+per
	scratch, err := ir.ScratchOf[float64](c, kit.WorkspaceCount(blocks)*each)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, blocks, func(ws, b int) error {
		i, end := b*block, min(n, (b+1)*block)
		kernels, own := scratch[ws*each:][:(end-i)*count], scratch[ws*each+block*count:][:per]
		k.eval(c, kernels, x[i*cols:end*cols], cols, count, vectors)
		for ; i < end; i++ {
			fn(i, kernels[:count], own)
			kernels = kernels[count:]
		}
		return nil
	})
}

// svmColumns checks the number of elements of vectors feature vectors of cols columns.
func svmColumns(numbers, vectors, cols int, name string) error {
	if vectors == 0 || cols > math.MaxInt/vectors || numbers != vectors*cols {
		return fail.Errorf("%s has %d elements, want %d × %d: one per vector and column of X", name, numbers, vectors, cols)
	}
	return nil
}
