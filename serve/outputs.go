package serve

import (
	"sync/atomic"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// outputs is the memory of the outputs of a run, from its end until their last user has released
// them. Each part of a batch refers to all of its outputs.
type outputs struct {
	memory reservation
	users  atomic.Int32
}

// releaseAll ends a use of outputs.
func releaseAll(l []*outputs) {
	for _, o := range l {
		if o.users.Add(-1) == 0 {
			o.memory.release()
		}
	}
}

// keep reserves the memory of outputs for the jobs that they belong to. A scheduler without a
// server reserves none.
func (s *scheduler) keep(out onward.Values, jobs ...*job) error {
	if s.server == nil {
		return nil
	}
	o := &outputs{memory: reservation{s: s.server}}
	n := int64(0)
	for _, v := range out {
		if t, ok := v.(*tensor.Tensor); ok {
			n += tensorSize(t) + tensorCost
		}
	}
	if err := o.memory.grow(n); err != nil {
		return err
	}
	o.users.Store(int32(len(jobs)))
	for _, j := range jobs {
		j.kept = []*outputs{o}
	}
	return nil
}

// tensorCost is about what a tensor takes in memory besides its elements.
const tensorCost = 256

// tensorSize returns the bytes of memory of a tensor's elements.
func tensorSize(t *tensor.Tensor) int64 {
	if t.DType() == tensor.TypeString {
		return rawSize(t) + 12*int64(t.Len()) // 16 for a string, in place of the length's four
	}
	return rawSize(t)
}

// settle is called when a job has run, and when its submitter leaves before that. The second of
// them releases the outputs.
func (j *job) settle() {
	if j.settled.Swap(true) {
		releaseAll(j.kept)
	}
}

// release gives back the memory of the outputs.
func (r *response) release() { releaseAll(r.kept) }

// elementSize returns the bytes of memory of an element, without the content of a string.
func elementSize(t tensor.DType) int64 {
	if t == tensor.TypeString {
		return 16
	}
	return int64(t.Size())
}
