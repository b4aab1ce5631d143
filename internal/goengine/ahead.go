package goengine

import (
	"context"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/tensor"
)

// The heights and widths for which weights are packed while a session opens. Classifiers, whose
// results have the same shapes for images of all sizes, mostly get images of the first size.
var usualSizes = []int{224, 320, 640}

// packAhead packs the weights of convolutions that are packed in one way for images of all usual
// sizes, unless the first run with such an image would not compile a plan. The first run packs
// those of other convolutions.
func (s *specializer) packAhead(ctx context.Context, pool *exec.Pool) error {
	const most = 4 // times the size of the weights, by Winograd's algorithm
	if convBytes(s.template) > s.maxBytes/most {
		return nil
	}
	var graphs []*ir.Graph
	for i, size := range usualSizes {
		shapes, ok := s.usualShapes(size)
		if !ok {
			return nil
		}
		g, _, err := s.shaped(ctx, shapes, make([]*tensor.Tensor, len(shapes)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || i == 0 && gain(g) < s.cost {
			return nil
		}
		if graphs = append(graphs, g); i == 1 && sameResults(graphs[0], g) {
			graphs = graphs[:1]
			break
		}
	}
	producers := make([][]int, len(graphs))
	for i, g := range graphs {
		producers[i] = g.Producers()
	}
	packs := s.packs.Fork()
	var jobs []func()
	left := convBytes(s.template)
	for _, n := range graphs[0].Nodes {
		cv := convOf(n)
		if cv == nil {
			continue
		}
		skip := 0
		if len(graphs) > 1 && !dilated(cv) {
			skip = 1 // models with larger results for larger images seldom get the smallest ones
		}
		if pack, size := packOf(n, cv, graphs[skip:], producers[skip:], packs); pack != nil {
			jobs, left = append(jobs, pack), left-size
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if s.mapping != nil {
		pool = nil // faults of mapped memory are errors in this goroutine alone
	}
	err := s.guard(func() error {
		work := func(lo, hi int) {
			for i := lo; i < hi && ctx.Err() == nil; i++ {
				jobs[i]()
			}
		}
		if pool == nil {
			work(0, len(jobs))
		} else {
			pool.Run(len(jobs), 1, work)
		}
		return ctx.Err()
	})
	if err != nil {
		packs.Release()
		return err
	}
	s.ahead, s.left = packs, left
	return nil
}

// usualShapes returns shapes of the inputs with images of one height and width. ok is false if
// other dimensions than these and the number of images are free.
func (s *specializer) usualShapes(size int) (shapes [][]int, ok bool) {
	images := false
	for _, id := range s.template.Inputs {
		t := s.template.Values[id].Type
		if t.Kind != tensor.KindTensor || t.Shape == nil {
			return nil, false
		}
		channels := 1
		if len(t.Shape) == 4 {
			if _, known := t.Shape[1].Value(); !known {
				channels = 3
			}
		}
		shape := make([]int, len(t.Shape))
		for axis, d := range t.Shape {
			n, known := d.Value()
			switch {
			case known:
			case axis == 0:
				n = 1
			case len(t.Shape) == 4 && axis != channels:
				n, images = size, true
			default:
				return nil, false
			}
			shape[axis] = n
		}
		shapes = append(shapes, shape)
	}
	return shapes, images
}

// sameResults reports whether the results of two graphs have the same shapes.
func sameResults(a, b *ir.Graph) bool {
	return slices.EqualFunc(a.Outputs, b.Outputs, func(x, y ir.ValueID) bool {
		return slices.EqualFunc(a.Values[x].Type.Shape, b.Values[y].Type.Shape, ir.Dim.Same)
	})
}

// convOf returns the convolution of a node, or nil.
func convOf(n *ir.Node) *ops.Conv {
	switch op := n.Op.(type) {
	case *ops.Conv:
		return op
	case *ops.FusedConv:
		return &op.Conv
	}
	return nil
}

// dilated reports whether the taps of a convolution have gaps. Which of them are inside of an image
// then depends on its size, as in DeepLab.
func dilated(cv *ops.Conv) bool { return cv.Dilation(0) > 1 || cv.Dilation(1) > 1 }

// packOf returns the function that packs the weights of a convolution, and their size, if they are
// packed in the same way in all graphs. Else it returns nil. n is the convolution's node in one of
// the graphs.
func packOf(n *ir.Node, cv *ops.Conv, graphs []*ir.Graph, producers [][]int,
	packs *ir.Packs) (pack func(), size int64) {
	w, _ := graphs[0].Values[n.In[1]].Const.(*tensor.Tensor)
	var bias *tensor.Tensor
	if len(n.In) > 2 && n.In[2] != ir.None {
		if bias, _ = graphs[0].Values[n.In[2]].Const.(*tensor.Tensor); bias == nil {
			return nil, 0
		}
	}
	if w == nil {
		return nil, 0
	}
	var sizes [][2]int
	for k, g := range graphs {
		i := producers[k][n.Out[0]]
		if i < 0 {
			return nil, 0
		}
		s, ok := ir.Ints(g.Values[g.Nodes[i].In[0]].Type.Shape)
		if !ok || len(s) != 4 || min(s[2], s[3]) < 1 || max(s[2], s[3]) > math.MaxInt32 {
			return nil, 0
		}
		sizes = append(sizes, [2]int{s[2], s[3]})
	}
	return blocked.SameForSizes(cv, w, bias, sizes, packs), tensor.SizeOf(w)
}
