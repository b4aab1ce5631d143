package fit

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// runSizes are tried, in this order, for the free dimensions of a model that does not run with the
// sizes that inference accepts: multiples of 32 for images, and lengths of signals.
var runSizes = []int{32, 64, 128, 224, 256, 320, 512, 576, 640, 1024, 4096, 16000}

// maxTried is the number of elements of an input above which a size is not tried.
const maxTried = 1 << 21

// runs chooses sizes with which the model runs, if inference does not know the shapes of all
// values. If none works, the inputs keep the sizes of the inference.
func (s *solver) runs() {
	free := false
	for _, d := range s.dims {
		free = free || !d.fixed
	}
	if !free || inferred(s.f.graph) {
		return
	}
	start := s.save()
	first := s.run()
	if first == nil || errors.Is(first, context.DeadlineExceeded) || errors.Is(first, context.Canceled) {
		return
	}
	// A size is tried for all dimensions that are no batches, then for one while the others are 1.
	for only := -1; only < len(s.dims); only++ {
		for _, n := range runSizes {
			s.restore(start)
			for i, d := range s.dims {
				switch {
				case d.fixed:
				case i == only || only < 0 && d.size != batchSize:
					d.size, d.tied = n, false
				default:
					d.size, d.tied = batchSize, false
				}
			}
			s.named()
			if s.again() && s.small() && s.run() == nil {
				return
			}
		}
	}
	s.restore(start)
	s.again()
	s.f.Untested = first
}

// again infers the shapes and the needs of the inputs for the sizes, and reports whether that
// succeeds.
func (s *solver) again() bool {
	for _, v := range s.f.exact {
		v.Const = nil
	}
	s.f.exact = nil
	ok := s.try()
	if ok {
		s.f.walk()
	}
	return ok
}

// run runs the model with drawn inputs.
func (s *solver) run() error {
	feed, rng := onward.Values{}, rand.New(rand.NewPCG(1, 2))
	for _, a := range s.f.Args[:s.f.required] {
		v, given := s.o.Given[a.Name]
		if !given {
			var err error
			if v, err = s.f.Draw(rng, a); err != nil {
				return nil // Draw will report it where the input is needed
			}
		}
		feed[a.Name] = v
	}
	return s.o.Run(feed)
}

// small reports whether the inputs are small enough to try the sizes.
func (s *solver) small() bool {
	for _, shape := range s.f.Shapes {
		if n, err := tensor.Elements(shape); err != nil || n > maxTried {
			return false
		}
	}
	return true
}

// inferred reports whether inference knows the shapes of all values of a graph and its subgraphs.
func inferred(g *ir.Graph) bool {
	for _, n := range g.Nodes {
		for _, id := range n.Out {
			if id == ir.None {
				continue
			}
			t := g.Value(id).Type
			if t.Kind == tensor.KindTensor && !t.Ranked() {
				return false
			}
			for _, d := range t.Shape {
				if _, ok := d.Value(); !ok {
					return false
				}
			}
		}
		for _, sub := range n.Graphs {
			if !inferred(sub) {
				return false
			}
		}
	}
	return true
}
