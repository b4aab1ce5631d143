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

	count, cols int       // -1 columns if the vectors have different lengths
	vectors     []float64 // [count, cols]
	// turned has the vectors as columns, [cols, count]. For RBF, it has rows of 2γy, then of −γ|y|²
	// and 1: the exponent −γ|x−y|² is a product with x, 1, −γ|x|².
	turned  []float64
	largest float64 // largest γ|y|²
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

// setVectors sets the support vectors, [count, columns of X]. Other lengths are errors of check.
func (k *svmKernel) setVectors(vectors []float64, count int) {
	k.count, k.cols, k.vectors = count, -1, vectors
	if count == 0 || len(vectors)%count != 0 {
		return
	}
	k.cols = len(vectors) / count
	k.turned = make([]float64, k.width()*count)
	for j := range count {
		y, norm := vectors[j*k.cols:][:k.cols], 0.0
		for i, v := range y {
			norm += v * v
			if k.kind == "RBF" {
				v *= 2 * k.gamma
			}
			k.turned[i*count+j] = v
		}
		if k.kind == "RBF" {
			k.turned[k.cols*count+j], k.turned[(k.cols+1)*count+j] = -k.gamma*norm, 1
			k.largest = max(k.largest, math.Abs(k.gamma)*norm)
		}
	}
}

// width returns the number of rows of turned.
func (k *svmKernel) width() int {
	if k.kind == "RBF" {
		return k.cols + 2
	}
	return k.cols
}

// check returns an error unless the vectors, an attribute of the given name, have cols elements.
func (k *svmKernel) check(cols int, name string) error {
	if k.count == 0 || cols != k.cols {
		return fail.Errorf("%s has %d elements, want %d × %d: one per vector and column of X", name,
			len(k.vectors), k.count, cols)
	}
	return nil
}

// svmBlock is the largest number of rows whose kernel functions are computed together.
const svmBlock = 128

// eval writes the functions of rows of x, [rows, cols], and each vector to out, [rows, count]. wide
// has rows*width elements.
func (k *svmKernel) eval(c *ir.Call, out, x, wide []float64, rows int) {
	a := x
	if k.kind == "RBF" {
		a = wide
		for r := range rows {
			row, norm := wide[r*k.width():][:k.width()], 0.0
			for i, v := range x[r*k.cols:][:k.cols] {
				row[i] = v
				norm += v * v
			}
			row[k.cols], row[k.cols+1] = 1, -k.gamma*norm
		}
	}
	if k.kind != "RBF" || !c.Generic {
		matmul.GemmHere(c, &gemm.Args[float64]{M: rows, N: k.count, K: k.width(), A: a, LdA: k.width(), B: k.turned,
			LdB: k.count, C: out, LdC: k.count})
	}
	switch k.kind {
	case "POLY":
		for j, v := range out {
			out[j] = math.Pow(k.gamma*v+k.coef0, k.degree)
		}
	case "RBF":
		// The exponent is a sum of terms of at most largest + γ|x|², which may cancel. Its error is
		// at most 2⁻³⁰, or it is computed from the differences.
		most, meter := 0x1p22/float64(k.cols+3), ir.Meter{C: c}
		for r := range rows {
			if !c.Generic && math.Abs(wide[(r+1)*k.width()-1])+k.largest <= most {
				continue
			}
			for j := range k.count {
				meter.Check(k.cols)
				sum, y := 0.0, k.vectors[j*k.cols:][:k.cols]
				for i, v := range x[r*k.cols:][:k.cols] {
					sum += (v - y[i]) * (v - y[i])
				}
				out[r*k.count+j] = -k.gamma * sum
			}
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

// svmRows evaluates the kernel functions of blocks of X's rows. It calls fn with them,
// [rows, count], and with scratch memory of rows*per + more elements.
func svmRows(c *ir.Call, k *svmKernel, n, per, more int, fn func(first, rows int, kernels, scratch []float64)) error {
	x, err := mlNumbersAs[float64](c, c.Tensor(0))
	if err != nil {
		return err
	}
	each := k.width() + k.count + per                             // numbers for each row
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
		wide, kernels, own := own[:rows*k.width()], own[rows*k.width():][:rows*k.count], own[rows*(k.width()+k.count):]
		k.eval(c, kernels, x[first*k.cols:][:rows*k.cols], wide, rows)
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
