package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// seqTypes lists the types of the elements of a sequence.
const seqTypes = "T: @all; I: int32 int64"

// sequenceIn returns input i, which must be a sequence.
func sequenceIn(c *ir.Call, i int) (*tensor.Sequence, error) {
	if c.Has(i) {
		if s, ok := c.In[i].(*tensor.Sequence); ok {
			return s, nil
		}
		return nil, fail.Errorf("input %d is a %s, want a sequence", i, c.In[i].Type())
	}
	return nil, fail.Errorf("input %d is missing", i)
}

// sequenceElem returns the element type of input i, a sequence.
func sequenceElem(c *ir.InferContext, i int) ir.Type {
	if of := c.Type(i).Of; of != nil {
		return *of
	}
	return ir.Type{}
}

// sequencePosition returns a position in [−n, n) as an index from 0. If behind is set, n is also
// valid: the end of the sequence.
func sequencePosition(t *tensor.Tensor, n int, behind bool) (int, error) {
	p, err := kit.ScalarInt(t, "position")
	if err != nil {
		return 0, err
	}
	end := n
	if behind {
		end++
	}
	if p < -n || p >= end {
		return 0, fail.Errorf("position %d is out of range [%d, %d] for a sequence of %d items", p, -n, end-1, n)
	}
	if p < 0 {
		p += n
	}
	return p, nil
}
