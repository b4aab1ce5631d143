package blocked

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// Layout describes an image in NCHW16c, with a border of zeros for the padding of operators that
// read it.
type Layout = conv.Layout

// Type is the type of n images of float in a layout: [n, elements].
func Type(n ir.Dim, l Layout) ir.Type {
	return ir.TensorType(tensor.TypeFloat32, n, ir.Known(l.Len()))
}

// The Blocked operators work on images of float in the layout NCHW16c. No model
// holds them: the optimizer makes them. Their sizes are known when it does, but
// for the number of images.

// blockedIn returns input i as n images in layout l.
func blockedIn(c *ir.Call, i int, l *Layout) (n int, data []float32, err error) {
	x := c.Tensor(i)
	if x.Rank() != 2 || x.Dim(1) != l.Len() {
		return 0, nil, fmt.Errorf("input %d has shape %v, want [N %d] for %d×%d×%d images", i, x.Shape(),
			l.Len(), l.C, l.H, l.W)
	}
	return x.Dim(0), tensor.MustData[float32](x), nil
}

// blockedOut allocates output 0 as n images in a layout and clears their borders.
func blockedOut(c *ir.Call, n int, l *Layout) ([]float32, error) {
	y, err := c.Output(0, tensor.TypeFloat32, n, l.Len())
	if err != nil {
		return nil, err
	}
	data := tensor.MustData[float32](y)
	if blocks := l.Blocks(); l.Top+l.Left+l.Bottom+l.Right > 0 {
		c.LaunchAside(n*blocks, 1+(1<<13)/(l.Block-16*l.H*l.W), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				l.ClearBorder(data[i/blocks*l.Len():][:l.Len()], i%blocks, i%blocks+1)
			}
		})
	}
	return data, nil
}

// joined is the number of elements of an image per thread up to which the launches of several
// images are joined. Beyond it, the launches of an image find in the caches what its previous one
// wrote.
const joined = 1 << 15

// sharing is the number of threads that share one of n images. The threads divide a launch for
// several images by images first, so that a thread finds in its caches what it wrote in the
// operators before.
func sharing(threads, n int) int { return threads / teams(threads, n) }

// teams is the number of teams of equal size that compute equal numbers of n images.
func teams(threads, n int) int {
	for n > 0 {
		threads, n = n, threads%n
	}
	return max(1, threads)
}

// eachImage calls fn for every image of size elements with a function that launches its kernels,
// and the number of threads that share an image. The kernels of one image depend on each other,
// those of several images do not: their launches become one, so that threads wait for each other
// less often. All images have the same number of launches.
func eachImage(c *ir.Call, n, size int, fn func(i, threads int, par gemm.Par)) {
	threads := c.Threads()
	if n <= 1 || threads <= 1 {
		for i := range n {
			fn(i, threads, c.Launcher())
		}
		return
	}
	share := sharing(threads, n)
	launches := make([][]ir.Launch, n)
	for i := range n {
		if i > 0 {
			launches[i] = make([]ir.Launch, 0, len(launches[0]))
		}
		fn(i, share, func(items int, kernel func(lo, hi int)) {
			launches[i] = append(launches[i], ir.Launch{N: items, Grain: 1, Kernel: kernel})
		})
	}
	small := slices.ContainsFunc(launches[0], func(l ir.Launch) bool { return l.N > 1 && l.N < 4*share })
	each := n
	if len(launches[0]) > 1 && size > joined*threads && !small {
		each = teams(threads, n)
	}
	for images := range slices.Chunk(launches, each) {
		join(c, images)
	}
}

// join launches the kernels of several images.
func join(c *ir.Call, images [][]ir.Launch) {
	for k, first := range images[0] {
		units := first.N // of each image
		c.Launch(units*len(images), 1, func(lo, hi int) {
			for lo < hi {
				i, u := lo/units, lo%units
				end := min(units, u+hi-lo)
				images[i][k].Kernel(u, end)
				lo += end - u
			}
		})
	}
}

// ToBlocked turns N×C×H×W into a layout, or N×C×W for images of height 1, or N×C for images of one
// pixel.
type ToBlocked struct{ Out Layout }

// Infer checks the input shape and sets the blocked type.
func (t *ToBlocked) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); s != nil {
		switch {
		case len(s) == 2 && t.Out.H*t.Out.W == 1:
			s = []ir.Dim{s[0], s[1], ir.Known(1), ir.Known(1)}
		case len(s) == 3 && t.Out.H == 1:
			s = []ir.Dim{s[0], s[1], ir.Known(1), s[2]}
		}
		if len(s) != 4 || s[1].Differs(ir.Known(t.Out.C)) || s[2].Differs(ir.Known(t.Out.H)) ||
			s[3].Differs(ir.Known(t.Out.W)) {
			return fmt.Errorf("input has shape %v, want [N %d %d %d]", s, t.Out.C, t.Out.H, t.Out.W)
		}
		n = s[0]
	}
	c.SetOut(0, Type(n, t.Out))
	return nil
}

// Run reorders block by block.
func (t *ToBlocked) Run(c *ir.Call) error {
	n, src, err := planarIn(c, 0, &t.Out)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeFloat32, n, t.Out.Len())
	if err != nil {
		return err
	}
	dst := tensor.MustData[float32](y)
	launchBands(c, n, &t.Out, func(i, lo, hi int) {
		t.Out.FromBands(cpu.Active(), dst[i*t.Out.Len():][:t.Out.Len()], src[i*t.Out.Planar():], lo, hi)
	})
	return nil
}

// launchBands launches fn for ranges of the bands of all blocks of n images.
func launchBands(c *ir.Call, n int, l *Layout, fn func(image, lo, hi int)) {
	bands := l.Bands()
	each := l.Blocks() * bands
	c.Launch(n*each, 1+(1<<13)/(conv.Lanes*l.H*l.W/bands+1), func(lo, hi int) {
		for lo < hi {
			i, first := lo/each, lo%each
			last := min(each, first+hi-lo)
			fn(i, first, last)
			lo += last - first
		}
	})
}

// planarIn returns input i as n images in NCHW.
func planarIn(call *ir.Call, i int, l *Layout) (int, []float32, error) {
	x := call.Tensor(i)
	s := x.Shape()
	if len(s) == 2 && l.H*l.W == 1 && s[1] == l.C || len(s) == 3 && l.H == 1 && s[1] == l.C && s[2] == l.W ||
		len(s) == 4 && s[1] == l.C && s[2] == l.H && s[3] == l.W {
		return s[0], tensor.MustData[float32](x), nil
	}
	return 0, nil, fmt.Errorf("input %d has shape %v, want [N %d %d %d]", i, s, l.C, l.H, l.W)
}

// FromBlocked turns a layout into N×C×H×W, N×C×W for images of height 1, or N×C for images of one
// pixel.
type FromBlocked struct {
	In   Layout
	Rank int
}

// shape returns the dimensions from the second one on.
func (f *FromBlocked) shape() []int {
	if f.Rank == 4 {
		return []int{f.In.C, f.In.H, f.In.W}
	}
	return []int{f.In.C, f.In.W}[:f.Rank-1]
}

// Infer gives the planar shape.
func (f *FromBlocked) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) == 2 {
		n = s[0]
	}
	shape := []ir.Dim{n}
	for _, d := range f.shape() {
		shape = append(shape, ir.Known(d))
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, shape...))
	return nil
}

// Run reorders block by block.
func (f *FromBlocked) Run(c *ir.Call) error {
	n, src, err := blockedIn(c, 0, &f.In)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeFloat32, append([]int{n}, f.shape()...)...)
	if err != nil {
		return err
	}
	dst := tensor.MustData[float32](y)
	launchBands(c, n, &f.In, func(i, lo, hi int) {
		f.In.ToBands(cpu.Active(), dst[i*f.In.Planar():][:f.In.Planar()], src[i*f.In.Len():][:f.In.Len()], lo, hi)
	})
	return nil
}

// NewLayout returns the layout of c channels of h×w pixels with a border of the given
// widths.
func NewLayout(c, h, w, top, left, bottom, right int) Layout {
	return conv.NewLayout(c, h, w, top, left, bottom, right)
}
