package blocked

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Attention computes scaled dot-product attention of float tensors that are transposed in memory,
// without copying them, in blocks of queries whose scores stay in the cache:
//
//	S = alpha · transpose(Q, PermQ) · transpose(K, PermK) + Mask
//	Y = transpose(softmax(S) · transpose(V, PermV), PermY)
//
// Q, K and V have the same rank, 3 or 4, and equal leading dimensions after the permutations, but
// that in rank 4, groups of as many heads of Q may share a head of K and V. The optional input 3,
// Mask, broadcasts to the scores. As with Softmax, a query whose scores are all −Inf has the result
// NaN. If ZeroNaN is set, probabilities that are NaN become 0.
type Attention struct {
	PermQ, PermK, PermV, PermY []int
	Alpha                      float32
	ZeroNaN                    bool
}

// CanAttend reports whether permutations leave the columns of queries, keys, values and results
// contiguous. PermK makes columns of keys, as the GEMM needs them.
func CanAttend(q, k, v, y []int) bool {
	n := len(q)
	return (n == 3 || n == 4) && len(k) == n && len(v) == n && len(y) == n &&
		q[n-1] == n-1 && k[n-2] == n-1 && v[n-1] == n-1 && y[n-1] == n-1
}

// Infer permutes, multiplies and permutes shapes.
func (o *Attention) Infer(c *ir.InferContext) error {
	n := len(o.PermQ)
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	if len(q) != n || len(k) != n || len(v) != n {
		return fail.Errorf("inputs have shapes %v, %v and %v, want rank %d", q, k, v, n)
	}
	q, v = matmul.Permuted(q, o.PermQ), matmul.Permuted(v, o.PermV)
	out := append(append([]ir.Dim{}, q[:n-1]...), v[n-1])
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, matmul.Permuted(out, o.PermY)...))
	return nil
}

// ReadsCache implements [ir.CacheReader]: keys and values have any strides.
func (o *Attention) ReadsCache(i, axis int) bool { return (i == 1 || i == 2) && axis < len(o.PermQ)-1 }

// heads returns a view of t and its permuted shape; length is the index of the rows of a head in
// that shape. cache is the memory of t if that is a state, else nil.
func heads(t *tensor.Tensor, cache *ir.Cache, perm []int, length int) (attention.HeadView[float32], []int) {
	n := len(perm)
	v := attention.HeadView[float32]{Data: tensor.MustData[float32](t)}
	shape := t.Shape()
	if cache != nil {
		v.Data = memory.FromRaw[float32](cache.Data)
		shape = slices.Clone(shape)
		shape[cache.Axis] = cache.Room
	}
	s := matmul.Permuted(kit.Strides(shape), perm)
	if v.Batch, v.Row = s[0], s[length]; n == 4 {
		v.Head = s[1]
	}
	return v, matmul.Permuted(t.Shape(), perm)
}

// Run launches the computation of the heads.
func (o *Attention) Run(c *ir.Call) error {
	n := len(o.PermQ)
	for i := range 3 {
		if t := c.Tensor(i); t.Rank() != n {
			return fail.Errorf("input %d has shape %v, want rank %d", i, t.Shape(), n)
		}
	}
	a := &attention.Core[float32]{Scale: float64(o.Alpha), Observe: attention.ScoresNone, NaN: true,
		ZeroNaN: o.ZeroNaN}
	var q, k, v []int
	a.Q, q = heads(c.Tensor(0), nil, o.PermQ, n-2)
	a.K, k = heads(c.Tensor(1), c.Cache(1), o.PermK, n-1)
	a.V, v = heads(c.Tensor(2), c.Cache(2), o.PermV, n-2)
	grouped := n == 4 && q[0] == k[0] && k[1] > 0 && q[1]%k[1] == 0
	if !slices.Equal(k[:n-2], v[:n-2]) || !grouped && !slices.Equal(q[:n-2], k[:n-2]) || q[n-1] != k[n-2] ||
		k[n-1] != v[n-2] {
		return fail.Errorf("permuted inputs have shapes %v, %v and %v, want equal batch and inner dimensions", q, k, v)
	}
	scores := append(slices.Clone(q[:n-1]), k[n-1])
	y, err := c.Output(0, tensor.TypeFloat32, matmul.Permuted(append(slices.Clone(q[:n-1]), v[n-1]), o.PermY)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	inverse := make([]int, n)
	for i, p := range o.PermY {
		inverse[p] = i
	}
	a.Y, _ = heads(y, nil, inverse, n-2)
	a.Batch, a.Heads, a.QLen, a.KVLen, a.Dim, a.VDim = q[0], 1, q[n-2], k[n-1], q[n-1], v[n-1]
	if n == 4 {
		a.Heads = q[1]
	}
	if a.KVHeads = a.Heads; grouped {
		a.KVHeads = k[1]
	}
	if mask := c.Tensor(3); mask != nil {
		if a.Bias, err = maskRows(mask, scores); err != nil {
			return err
		}
	}
	return a.Launch(c)
}

// maskRows returns a mask that broadcasts to scores as a bias.
func maskRows(mask *tensor.Tensor, scores []int) (*attention.Bias[float32], error) {
	s, n := mask.Shape(), len(scores)
	for d := range s {
		if o := n - len(s) + d; o < 0 || s[d] != 1 && s[d] != scores[o] {
			return nil, fail.Errorf("input Mask has shape %v, want one that broadcasts to %v", s, scores)
		}
	}
	step := kit.BroadcastStrides(s, scores)
	if n == 3 {
		step = []int{step[0], 0, step[1], step[2]}
	}
	return attention.NewBias(tensor.MustData[float32](mask), [4]int(step), scores[n-1], scores[n-1]), nil
}
