package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// GridSample samples an N×C×D1…Dr input at the coordinates of an N×E1…Er×r grid, with
// interpolation. Coordinates −1 and 1 are the ends of an axis; the last coordinate is that of D1
// (https://onnx.ai/onnx/operators/onnx__GridSample.html).
type GridSample struct {
	Mode         string // nearest, linear or cubic
	Padding      string // zeros, border or reflection
	AlignCorners bool   // the ends are the centers of the outermost elements instead of their edges
}

var _ = kit.Register(&kit.Def{Name: "GridSample", Since: kit.Versions{16, 20, 22}, In: "X:T1, grid:T2", Out: "Y:T1",
	Types: "T1: @number string bool @complex; T2: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		g := &GridSample{AlignCorners: a.Bool("align_corners", false), Padding: a.Enum("padding_mode", "zeros", "zeros", "border", "reflection")}
		if opset < 20 {
			mode := a.Enum("mode", "bilinear", "bilinear", "nearest", "bicubic")
			g.Mode = map[string]string{"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode]
		} else {
			g.Mode = a.Enum("mode", "linear", "linear", "nearest", "cubic")
		}
		return g
	},
	Gradient: kit.GridGradient(0)})

// Taps returns the number of elements of an axis that a sample reads.
func (g *GridSample) Taps() int {
	switch g.Mode {
	case "nearest":
		return 1
	case "linear":
		return 2
	}
	return 4
}

func (g *GridSample) Check(rank, gridRank int) error {
	if rank < 3 || gridRank != rank {
		return fmt.Errorf("input has rank %d and grid %d, want the same of at least 3", rank, gridRank)
	}
	if n := math.Pow(float64(g.Taps()), float64(rank-2)); n > kit.GridPoints {
		return fmt.Errorf("mode %s over %d axes reads %g elements per sample, want at most %d", g.Mode, rank-2, n, kit.GridPoints)
	}
	return nil
}

// Infer takes the spatial sizes from the grid.
func (g *GridSample) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	x, grid := c.Shape(0), c.Shape(1)
	if x != nil && grid != nil {
		if err := g.Check(len(x), len(grid)); err != nil {
			return err
		}
	}
	switch {
	case len(grid) >= 3:
		t.Shape = append([]ir.Dim{grid[0], ir.Unknown}, grid[1:len(grid)-1]...)
		if x != nil {
			t.Shape[0], t.Shape[1] = x[0], x[1]
		}
	case x != nil:
		t.Shape = ir.UnknownDims(len(x))
		if len(x) >= 2 {
			t.Shape[0], t.Shape[1] = x[0], x[1]
		}
	}
	return nil
}

// Run interpolates float32 in float32 and other numbers in float64; integers are truncated.
func (g *GridSample) Run(c *ir.Call) error {
	x, grid := c.Tensor(0), c.Tensor(1)
	xs, gs := x.Shape(), grid.Shape()
	if err := g.Check(len(xs), len(gs)); err != nil {
		return err
	}
	r := len(xs) - 2
	if gs[0] != xs[0] || gs[r+1] != r {
		return fmt.Errorf("input has shape %v and grid %v, want %d grids of %d coordinates", xs, gs, xs[0], r)
	}
	out := append([]int{xs[0], xs[1]}, gs[1:r+1]...)
	if kit.Product(xs[2:]) == 0 && g.Padding != "zeros" && kit.Product(out) > 0 {
		return fmt.Errorf("input has shape %v, want at least one element to pad with", xs)
	}
	at, err := kit.RealIn[float64](c, grid)
	if err != nil {
		return err
	}
	if g.Mode == "nearest" {
		return g.runNearest(c, x, at, out, grid.DType())
	}
	switch x.DType() {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		return gridSample[float32](c, g, x, at, out, grid.DType())
	}
	return gridSample[float64](c, g, x, at, out, grid.DType())
}

// Coordinate converts a grid coordinate to a coordinate of an axis of d elements, in the precision of
// the grid.
func (g *GridSample) Coordinate(v float64, d int, t tensor.DType) float64 {
	if t != tensor.TypeFloat64 {
		f := float32(v)
		if g.AlignCorners {
			f = (f + 1) / 2 * float32(d-1)
		} else {
			f = (float32(f+1)*float32(d) - 1) / 2
		}
		v = float64(f)
	} else if g.AlignCorners {
		v = (v + 1) / 2 * float64(d-1)
	} else {
		v = ((v+1)*float64(d) - 1) / 2
	}
	const far = 1 << 40
	if v != v {
		v = -far
	}
	v = min(max(v, -far), far)
	if g.Mode == "nearest" {
		v = math.RoundToEven(v)
	}
	lo, hi := g.Borders(d)
	if v < lo || v > hi {
		switch g.Padding {
		case "border":
			// Cubic interpolation applies the padding to each element that it reads.
			if g.Mode != "cubic" {
				v = min(max(v, 0), float64(d-1))
			}
		case "reflection":
			v = gridReflect(v, lo, hi)
		}
	}
	return v
}

// Borders returns the ends of an axis of d elements.
func (g *GridSample) Borders(d int) (lo, hi float64) {
	if g.AlignCorners {
		return 0, float64(d - 1)
	}
	return -0.5, float64(d) - 0.5
}

// gridReflect reflects x at the borders until it is within them.
func gridReflect(x, lo, hi float64) float64 {
	width := hi - lo
	if width <= 0 {
		return lo
	}
	away, near, far := lo-x, lo, hi
	if x > hi {
		away, near, far = x-hi, hi, lo
	}
	if away < 0 {
		return x
	}
	n := math.Floor(away / width)
	rest := away - n*width
	if near > far {
		rest = -rest
	}
	if math.Mod(n, 2) == 0 {
		return near + rest
	}
	return far - rest
}

// Element returns the index of the Element at coordinate i of an axis of d elements, or −1 for a
// zero.
func (g *GridSample) Element(i, d int) int {
	if i >= 0 && i < d {
		return i
	}
	if g.Padding == "zeros" {
		return -1
	}
	if g.Padding == "reflection" {
		lo, hi := g.Borders(d)
		i = int(gridReflect(float64(i), lo, hi))
	}
	return min(max(i, 0), d-1)
}

// sample finds the elements of a plane that are read for the coordinates at, and their weights. It
// returns the number of elements that are not zero.
func (g *GridSample) sample(at []float64, dims []int, t tensor.DType, index []int, weight []float64) int {
	n := 1
	index[0], weight[0] = 0, 1
	for a, d := range dims {
		x := g.Coordinate(at[len(at)-1-a], d, t)
		var taps [4]int
		var w [4]float64
		num := g.Taps()
		base := int(math.Floor(x))
		switch ratio := x - float64(base); num {
		case 1:
			taps[0], w[0] = base, 1
		case 2:
			taps[0], taps[1] = base, base+1
			w[0], w[1] = 1-ratio, ratio
		default:
			for k := range taps {
				taps[k] = base - 1 + k
				w[k] = kit.KeysKernel(float64(k-1)-ratio, -0.75)
			}
		}
		// Combine each partial offset with each tap, backwards, in place.
		kept := 0
		for k := range num {
			if taps[k] = g.Element(taps[k], d); taps[k] >= 0 {
				taps[kept], w[kept] = taps[k], w[k]
				kept++
			}
		}
		for i := n - 1; i >= 0; i-- {
			from, f := index[i], weight[i]
			for k := kept - 1; k >= 0; k-- {
				index[i*kept+k], weight[i*kept+k] = from*d+taps[k], f*w[k]
			}
		}
		n *= kept
	}
	return n
}

// gridBlock is the number of samples that are computed for one channel after the other, so that a plane
// stays in the cache.
const gridBlock = 64

// gridLinear is gridSample for planes and linear interpolation.
func gridLinear[T kit.RealFloat](c *ir.Call, g *GridSample, y, x []T, at []float64, ch, places int, dims []int, gt tensor.DType) {
	plane := kit.Product(dims)
	images := len(y) / (ch * places)
	c.Parallel(images*places, kit.GrainFor(4*(ch+4)), func(lo, hi int) {
		m := &kit.Meter{C: c}
		var index [gridBlock][4]int
		var weight [gridBlock][4]T
		var count [gridBlock]int
		for end := lo; lo < hi; lo = end {
			img := lo / places
			end = min(hi, lo+gridBlock, (img+1)*places)
			for j := range end - lo {
				var w [4]float64
				p := lo + j
				count[j] = g.sampleLinear(at[2*p], at[2*p+1], dims[0], dims[1], gt, index[j][:], w[:])
				weight[j] = [4]T{T(w[0]), T(w[1]), T(w[2]), T(w[3])}
			}
			for k := range ch {
				from, to := x[(img*ch+k)*plane:][:plane], y[(img*ch+k)*places+lo%places:][:end-lo]
				for j := range to {
					i, w := &index[j], &weight[j]
					if count[j] == 4 {
						to[j] = w[0]*from[i[0]] + w[1]*from[i[1]] + w[2]*from[i[2]] + w[3]*from[i[3]]
						continue
					}
					var sum T
					for t := range count[j] {
						sum += w[t] * from[i[t]]
					}
					to[j] = sum
				}
			}
			if !m.Spend((end - lo) * 4 * (ch + 4)) {
				return
			}
		}
	})
}

// sampleLinear is sample for planes of h×w elements and linear interpolation.
func (g *GridSample) sampleLinear(x, y float64, h, w int, t tensor.DType, index []int, weight []float64) int {
	if !g.AlignCorners && t != tensor.TypeFloat64 { // inside, without the steps of Coordinate for the borders
		cx, cy := (float32(float32(x)+1)*float32(w)-1)/2, (float32(float32(y)+1)*float32(h)-1)/2
		if cx >= 0 && cx < float32(w-1) && cy >= 0 && cy < float32(h-1) {
			left, top := int(cx), int(cy)
			rx, ry := float64(cx)-float64(left), float64(cy)-float64(top)
			at := top*w + left
			index[0], index[1], index[2], index[3] = at, at+1, at+w, at+w+1
			weight[0], weight[1], weight[2], weight[3] = (1-ry)*(1-rx), (1-ry)*rx, ry*(1-rx), ry*rx
			return 4
		}
	}
	x, y = g.Coordinate(x, w, t), g.Coordinate(y, h, t)
	fx, fy := math.Floor(x), math.Floor(y)
	left, top := int(fx), int(fy)
	rx, ry := x-fx, y-fy
	n := 0
	for i, wy := range [2]float64{1 - ry, ry} {
		row := g.Element(top+i, h)
		for j, wx := range [2]float64{1 - rx, rx} {
			if col := g.Element(left+j, w); row >= 0 && col >= 0 {
				index[n], weight[n] = row*w+col, wy*wx
				n++
			}
		}
	}
	return n
}

func gridSample[T kit.RealFloat](c *ir.Call, g *GridSample, t *tensor.Tensor, at []float64, out []int, gt tensor.DType) error {
	x, err := kit.NumberIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), out...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	dims := t.Shape()[2:]
	plane, ch, r := kit.Product(dims), out[1], len(dims)
	places := kit.Product(out[2:])
	most := int(math.Pow(float64(g.Taps()), float64(r)))
	if r == 2 && g.Mode == "linear" && !c.Generic {
		gridLinear(c, g, y.Data, x, at, ch, places, dims, gt)
		y.StoreNumber(true)
		return c.Err()
	}
	c.Parallel(out[0]*places, kit.GrainFor(most*(ch+4)), func(lo, hi int) {
		m := &kit.Meter{C: c}
		index, weight := make([]int, most), make([]float64, most)
		for p := lo; p < hi && m.Spend(most*ch); p++ {
			n := g.sample(at[p*r:][:r], dims, gt, index, weight)
			img, place := p/places, p%places
			for k := range ch {
				from := x[(img*ch+k)*plane:][:plane]
				var sum T
				for i, at := range index[:n] {
					sum += T(weight[i]) * from[at]
				}
				y.Data[(img*ch+k)*places+place] = sum
			}
		}
	})
	y.StoreNumber(true)
	return c.Err()
}

// runNearest copies elements of any type.
func (g *GridSample) runNearest(c *ir.Call, t *tensor.Tensor, at []float64, out []int, gt tensor.DType) error {
	src, err := kit.MoveIn(c, t)
	if err != nil {
		return err
	}
	dst, err := kit.MoveOut(c, 0, t.DType(), out...)
	if err != nil || dst.Len() == 0 {
		return err
	}
	dims := t.Shape()[2:]
	switch dst.Width {
	case 0:
		gridMove(c, g, dst.Strs, src.Strs, at, out, dims, gt)
	case 1:
		gridMove(c, g, dst.Raw, src.Raw, at, out, dims, gt)
	case 2:
		gridMove(c, g, kit.MoveOf[uint16](dst), kit.MoveOf[uint16](src), at, out, dims, gt)
	case 4:
		gridMove(c, g, kit.MoveOf[uint32](dst), kit.MoveOf[uint32](src), at, out, dims, gt)
	case 8:
		gridMove(c, g, kit.MoveOf[uint64](dst), kit.MoveOf[uint64](src), at, out, dims, gt)
	case 16:
		gridMove(c, g, kit.MoveOf[[2]uint64](dst), kit.MoveOf[[2]uint64](src), at, out, dims, gt)
	}
	dst.Done()
	return c.Err()
}

func gridMove[E kit.MoveElem](c *ir.Call, g *GridSample, dst, src []E, at []float64, out, dims []int, gt tensor.DType) {
	plane, ch, r := kit.Product(dims), out[1], len(dims)
	places := kit.Product(out[2:])
	c.Parallel(out[0]*places, kit.GrainFor(ch+8*r), func(lo, hi int) {
		m := &kit.Meter{C: c}
		var index [1]int
		var weight [1]float64
		for p := lo; p < hi && m.Spend(ch); p++ {
			n := 0
			if r == 2 && !c.Generic {
				row, col := g.Element(int(g.Coordinate(at[2*p+1], dims[0], gt)), dims[0]), g.Element(int(g.Coordinate(at[2*p], dims[1], gt)), dims[1])
				if row >= 0 && col >= 0 {
					n, index[0] = 1, row*dims[1]+col
				}
			} else {
				n = g.sample(at[p*r:][:r], dims, gt, index[:], weight[:])
			}
			img, place := p/places, p%places
			for k := range ch {
				var v E
				if n > 0 {
					v = src[(img*ch+k)*plane+index[0]]
				}
				dst[(img*ch+k)*places+place] = v
			}
		}
	})
}
