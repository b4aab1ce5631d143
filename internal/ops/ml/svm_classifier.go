package ml

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// SVMClassifier classifies by votes of the pairs of classes, each given by the sign of Σ
// coefficient·kernel(X, support vector) + rho. Without support vectors, it selects the
// class with the highest coefficients·X + rho. The scores are the decision values of the
// pairs, or probabilities if prob_a and prob_b are given
// (https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html).
//
// As in ONNX Runtime, the single decision value s of two classes becomes [−s, s], two
// logistic values, or [1−s, s] with the other transforms.
type SVMClassifier struct {
	kernel       svmKernel
	coefficients []float64 // [vectors, classes−1]
	perClass     []int
	total        int // number of support vectors
	rho          []float32
	probA, probB []float32
	labels       classLabels
	transform    postTransform
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "SVMClassifier", Since: kit.Versions{1}, In: "X:T1",
	Out:   "Y:T2, Z:float",
	Types: "T1: " + mlNumbers + "; T2: string int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		coefficients, vectors := widened(a.Floats("coefficients")), widened(a.Floats("support_vectors"))
		op := &SVMClassifier{kernel: readSVMKernel(a),
			perClass: a.Ints("vectors_per_class"), rho: a.Floats("rho"), probA: a.Floats("prob_a"),
			probB:  a.Floats("prob_b"),
			labels: readClassLabels(a, "classlabels_ints", "classlabels_strings"), transform: readPostTransform(a)}
		for _, n := range op.perClass {
			if n < 0 || n > len(vectors) {
				a.Errorf("vectors_per_class holds %d, want 0 to the length of support_vectors, %d", n, len(vectors))
				return op
			}
			op.total += n
		}
		classes := op.labels.len()
		if len(op.rho) == 0 {
			op.rho = make([]float32, max(1, op.pairs()))
		}
		if op.total == 0 {
			op.kernel.kind = "LINEAR"
			op.probA = nil
			op.kernel.setVectors(coefficients, classes)
			return op
		}
		pairs := op.pairs()
		switch {
		case len(op.perClass) != classes || classes < 2:
			a.Errorf("vectors_per_class has %d elements for %d class labels, want one per label and at least 2",
				len(op.perClass), classes)
		case len(coefficients) < (classes-1)*op.total:
			a.Errorf("%d coefficients, want at least %d × %d: number of classes - 1 times number of support vectors",
				len(coefficients), classes-1, op.total)
		case len(op.rho) != pairs:
			a.Errorf("rho has %d elements, want one per pair of classes, %d", len(op.rho), pairs)
		case len(op.probA) != len(op.probB) || len(op.probA) != 0 && len(op.probA) != pairs:
			a.Errorf("prob_a and prob_b have %d and %d elements, want one per pair of classes, %d", len(op.probA),
				len(op.probB), pairs)
		default:
			op.kernel.setVectors(vectors, op.total)
			op.coefficients = make([]float64, op.total*(classes-1))
			vec.TransposeF64(cpu.Generic, op.coefficients, classes-1, coefficients, op.total, classes-1, op.total)
		}
		return op
	}})

func (op *SVMClassifier) pairs() int { n := op.labels.len(); return n * (n - 1) / 2 }

// columns returns the number of scores per row.
func (op *SVMClassifier) columns() int {
	switch n := op.labels.len(); {
	case op.total == 0 || len(op.probA) > 0 || n == 2:
		return n
	default:
		return op.pairs()
	}
}

// Infer sets Y to [N] and Z to [N, scores].
func (op *SVMClassifier) Infer(c *ir.InferContext) error {
	n, _, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(op.labels.dtype(), n))
	c.SetOut(1, ir.TensorType(tensor.TypeFloat32, n, ir.Known(op.columns())))
	return nil
}

// Run classifies row by row.
func (op *SVMClassifier) Run(c *ir.Call) error {
	n, cols, err := mlRows(c.Tensor(0), "X")
	if err != nil {
		return err
	}
	classes := op.labels.len()
	name := "support_vectors"
	if op.total == 0 {
		name = "coefficients"
	}
	if err := op.kernel.check(cols, name); err != nil {
		return err
	}
	y, err := c.Output(0, op.labels.dtype(), n)
	if err != nil {
		return err
	}
	e := op.columns()
	t, err := c.Output(1, tensor.TypeFloat32, n, e)
	if err != nil {
		return err
	}
	z := tensor.MustData[float32](t)
	pairs, more := op.pairs(), 0
	if len(op.probA) > 0 {
		more = 2*classes*classes + 2*classes
	}
	err = svmRows(c, &op.kernel, n, classes*classes+pairs, more,
		func(first, rows int, kernels, scratch []float64) {
			if op.total == 0 {
				for r := range rows {
					row := z[(first+r)*e:][:e]
					for k := range row {
						row[k] = float32(kernels[r*e+k] + float64(op.rho[0]))
					}
					op.labels.set(y, first+r, argMaxRow(row))
					if e > 1 || op.transform == transformLogistic || op.transform == transformProbit {
						applyTransform(op.transform, row)
					}
				}
				return
			}
			decisions, votes := scratch[:pairs*rows], scratch[pairs*rows:][:classes*rows]
			sums, scratch := scratch[(pairs+classes)*rows:], scratch[(pairs+classes*classes)*rows:]
			op.decide(c, kernels, decisions, votes, sums, rows)
			for r := range rows {
				row, decisions := z[(first+r)*e:][:e], decisions[r*pairs:][:pairs]
				best := 0
				for k, v := range votes[r*classes:][:classes] {
					if v > votes[r*classes+best] {
						best = k
					}
				}
				op.labels.set(y, first+r, best)
				switch {
				case len(op.probA) > 0:
					for k, v := range op.probabilities(decisions, scratch) {
						row[k] = float32(v)
					}
					applyTransform(op.transform, row)
				case classes == 2:
					s := float32(decisions[0])
					row[0], row[1] = -s, s
					switch op.transform {
					case transformNone:
					case transformLogistic:
						applyTransform(op.transform, row)
					case transformProbit:
						row[0] = 1 - s
						applyTransform(op.transform, row)
					default:
						row[0] = 1 - s
					}
				default:
					for k, v := range decisions {
						row[k] = float32(v)
					}
				}
			}
		})
	if err == nil && op.total > 0 && len(op.probA) == 0 && classes != 2 && e > 0 {
		c.Parallel(n, kit.GrainFor(16*e), func(lo, hi int) { transformRows(c, op.transform, z[lo*e:hi*e], e) })
	}
	return err
}

// decide writes the decision values of rows for every pair of classes, [rows, pairs], and the votes
// for each class, [rows, classes]. sums has rows*classes*(classes-1) elements.
func (op *SVMClassifier) decide(c *ir.Call, kernels, decisions, votes, sums []float64, rows int) {
	// The kernel functions of each class are multiplied by all of their coefficients.
	classes := len(op.perClass)
	others := classes - 1
	si := 0
	for i, ni := range op.perClass {
		matmul.GemmHere(c, &gemm.Args[float64]{M: rows, N: others, K: ni, A: kernels[si:], LdA: op.total,
			B: op.coefficients[si*others:], LdB: others, C: sums[i*others:], LdC: classes * others})
		si += ni
	}
	clear(votes)
	for r := range rows {
		vote, s := votes[r*classes:][:classes], sums[r*classes*others:][:classes*others]
		pair := 0
		for i := range classes {
			for j := i + 1; j < classes; j++ {
				v := float64(op.rho[pair]) + s[i*others+j-1] + s[j*others+i]
				decisions[r*len(op.rho)+pair] = v
				won := float64(kit.BoolToInt(v > 0)) // without a branch that depends on the data
				vote[i] += won
				vote[j] += 1 - won
				pair++
			}
		}
	}
}

// probabilities combines the pairwise probabilities into one per class, by the second
// method of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by
// Pairwise Coupling" (JMLR 5, 2004), solved by iteration.
func (op *SVMClassifier) probabilities(decisions, scratch []float64) []float64 {
	k := op.labels.len()
	r, q := scratch[:k*k], scratch[k*k:2*k*k]
	p, qp := scratch[2*k*k:][:k], scratch[2*k*k+k:][:k]
	pair := 0
	for i := range k {
		for j := i + 1; j < k; j++ {
			v := kit.Logistic(-(decisions[pair]*float64(op.probA[pair]) + float64(op.probB[pair])))
			v = min(max(v, 1e-7), 1-1e-7)
			r[i*k+j], r[j*k+i] = v, 1-v
			pair++
		}
	}
	for t := range k {
		p[t] = 1 / float64(k)
		q[t*k+t] = 0
		for j := range k {
			if j != t {
				q[t*k+t] += r[j*k+t] * r[j*k+t]
				q[t*k+j] = -r[j*k+t] * r[t*k+j]
			}
		}
	}
	for range max(100, k) {
		pqp := 0.0
		for t := range k {
			qp[t] = 0
			for j := range k {
				qp[t] += q[t*k+j] * p[j]
			}
			pqp += p[t] * qp[t]
		}
		worst := 0.0
		for _, v := range qp {
			worst = max(worst, math.Abs(v-pqp))
		}
		if worst < 0.005/float64(k) {
			break
		}
		for t := range k {
			d := (pqp - qp[t]) / q[t*k+t]
			p[t] += d
			pqp = (pqp + d*(d*q[t*k+t]+2*qp[t])) / ((1 + d) * (1 + d))
			for j := range k {
				qp[j] = (qp[j] + d*q[t*k+j]) / (1 + d)
				p[j] /= 1 + d
			}
		}
	}
	return p
}
