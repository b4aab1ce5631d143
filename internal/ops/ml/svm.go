package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
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

// svmBlock is the largest number of rows whose kernel functions are computed together.
const svmBlock = 128

// eval writes the functions of rows rows of x and of each of count vectors to out, [count rows].
// Rows and vectors have cols elements. turned has cols*rows elements.
func (k *svmKernel) eval(c *ir.Call, out, x, turned []float64, rows, cols, count int, vectors []float64) {
	squares := k.kind == "RBF"
	if !squares && !c.Generic {
		matmul.GemmHere(c, &gemm.Args[float64]{M: count, N: rows, K: cols, A: vectors, LdA: cols, B: x, LdB: cols,
			TransB: true, C: out, LdC: rows})
	} else {
		for i := range cols {
			for r := range rows {
				turned[i*rows+r] = x[r*cols+i]
			}
		}
		m := ir.Meter{C: c}
		for j := range count {
			m.Check(rows * cols)
			sums := out[j*rows:][:rows]
			clear(sums)
			for i, w := range vectors[j*cols:][:cols] {
				column := turned[i*rows:][:len(sums)]
				if squares {
					for r, v := range column {
						sums[r] += (v - w) * (v - w)
					}
				} else {
					addScaled(c, sums, column, w)
				}
			}
		}
	}
	switch k.kind {
	case "POLY":
		for j, v := range out {
			out[j] = math.Pow(k.gamma*v+k.coef0, k.degree)
		}
	case "RBF":
		for j, v := range out {
			out[j] = -k.gamma * v
		}
		if !c.Generic {
			vec.ExpF64(cpu.Active(), out, out)
			return
		}
		for j, v := range out {
			out[j] = math.Exp(v)
		}
	case "SIGMOID":
		for j, v := range out {
			out[j] = k.gamma*v + k.coef0
		}
		if !c.Generic {
			vec.TanhF64(cpu.Active(), out, out)
			return
		}
		for j, v := range out {
			out[j] = math.Tanh(v)
		}
	}
}

// addScaled adds s·x to dst, which is not longer.
func addScaled(c *ir.Call, dst, x []float64, s float64) {
	level := cpu.Active()
	if c.Generic {
		level = cpu.Generic
	}
	vec.SubRowsF64(level, dst, 0, x[:len(dst)], []float64{-s}, 0, 1)
}

// svmRows calls fn in parallel for blocks of rows of input 0, [N, F] or [F]. fn gets the first row
// and the kernel functions of the rows and of count vectors, [count rows]. scratch has per elements
// for each row and more elements.
func svmRows(c *ir.Call, k *svmKernel, n, cols, count int, vectors []float64, per, more int,
	fn func(first, rows int, kernels, scratch []float64)) error {
	x, err := mlNumbersAs[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	each := cols + count + per                                    // numbers for each row
	block := min(svmBlock, max(8, 1<<15/max(1, each)), max(1, n)) // of 256 KB
	blocks := (n + block - 1) / block
	size := block*each + more
	scratch, err := ir.ScratchOf[float64](c, kit.WorkspaceCount(c, blocks)*size)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, blocks, func(ws, b int) error {
		first := b * block
		rows := min(n-first, block)
		own := scratch[ws*size:][:size]
		turned, kernels, own := own[:rows*cols], own[rows*cols:][:rows*count], own[rows*(cols+count):]
		k.eval(c, kernels, x[first*cols:][:rows*cols], turned, rows, cols, count, vectors)
		fn(first, rows, kernels, own)
		return nil
	})
}

// widened returns x as float64.
func widened(x []float32) []float64 {
	w := make([]float64, len(x))
	for i, v := range x {
		w[i] = float64(v)
	}
	return w
}

// svmColumns checks the number of elements of vectors feature vectors of cols columns.
func svmColumns(numbers, vectors, cols int, name string) error {
	if vectors == 0 || cols > math.MaxInt/vectors || numbers != vectors*cols {
		return fail.Errorf("%s has %d elements, want %d × %d: one per vector and column of X", name,
			numbers, vectors, cols)
	}
	return nil
}
