package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/window"
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
		g := &GridSample{AlignCorners: a.Bool("align_corners", false),
			Padding: a.Enum("padding_mode", "zeros", "zeros", "border", "reflection")}
		if opset < 20 {
			mode := a.Enum("mode", "bilinear", "bilinear", "nearest", "bicubic")
			g.Mode = map[string]string{"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode]
		} else {
			g.Mode = a.Enum("mode", "linear", "linear", "nearest", "cubic")
		}
		return g
	},
	Gradient: gradient.Grid(0)})

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
		return fail.Errorf("input has rank %d and grid %d, want the same of at least 3", rank, gridRank)
	}
	if n := math.Pow(float64(g.Taps()), float64(rank-2)); n > window.GridPoints {
		return fail.Errorf("mode %s over %d axes reads %g elements per sample, want at most %d", g.Mode,
			rank-2, n, window.GridPoints)
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
		return fail.Errorf("input has shape %v and grid %v, want %d grids of %d coordinates", xs, gs, xs[0], r)
	}
	out := append([]int{xs[0], xs[1]}, gs[1:r+1]...)
	if kit.Product(xs[2:]) == 0 && g.Padding != "zeros" && kit.Product(out) > 0 {
		return fail.Errorf("input has shape %v, want at least one element to pad with", xs)
	}
	var at gridCoordinates
	var err error
	if grid.DType() == tensor.TypeFloat64 {
		at.wide, err = kit.RealIn[float64](c, grid)
	} else {
		at.single, err = kit.RealIn[float32](c, grid)
	}
	if err != nil {
		return err
	}
	if g.Mode == "nearest" {
		return g.runNearest(c, x, at, out)
	}
	switch x.DType() {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		return gridSample[float32](c, g, x, at, out)
	}
	return gridSample[float64](c, g, x, at, out)
}

// Coordinate converts a grid coordinate to a coordinate of an axis of d elements, in the precision
// of the grid.
func (g *GridSample) Coordinate(v float64, d int, t tensor.DType) float64 {
	at := gridCoordinates{wide: []float64{v}}
	if t != tensor.TypeFloat64 {
		at = gridCoordinates{single: []float32{float32(v)}}
	}
	return at.coordinate(g, 0, d)
}

// gridCoordinates holds the coordinates of a grid in its precision, or in float32: one of the
// slices.
type gridCoordinates struct {
	single []float32
	wide   []float64
}

// coordinate is [GridSample.Coordinate] for coordinate i.
func (c gridCoordinates) coordinate(g *GridSample, i, d int) float64 {
	var to [1]float64
	c.coordinates(g, to[:], i, 1, d)
	return to[0]
}

// coordinates sets to[i] to the [GridSample.Coordinate] of coordinate from+i*step.
func (c gridCoordinates) coordinates(g *GridSample, to []float64, from, step, d int) {
	if c.wide != nil {
		scaleGrid(g, to, c.wide[from:], step, d)
	} else {
		scaleGrid(g, to, c.single[from:], step, d)
	}
}

// scaleGrid is [gridCoordinates.coordinates] for the coordinates at[i*step], in their precision.
func scaleGrid[F kit.RealFloat](g *GridSample, to []float64, at []F, step, d int) {
	nearest, reflect := g.Mode == "nearest", g.Padding == "reflection"
	clip := g.Padding == "border" && g.Mode != "cubic" // cubic interpolation pads each element that it reads
	lo, hi := g.Borders(d)
	last := float64(d - 1)
	factor, size := F(last), F(d)
	for i := range to {
		p := at[i*step] + 1
		if g.AlignCorners {
			p = p / 2 * factor
		} else {
			p = (F(p*size) - 1) / 2
		}
		const far = 1 << 40
		if !(p > -far) { // NaN too
			p = -far
		} else if p > far {
			p = far
		}
		to[i] = float64(p)
	}
	if !nearest && !clip && !reflect {
		return
	}
	for i, v := range to {
		if nearest {
			v = math.RoundToEven(v)
		}
		if clip {
			v = min(max(v, 0), last)
		} else if reflect && (v < lo || v > hi) {
			v = gridReflect(v, lo, hi)
		}
		to[i] = v
	}
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
func (g *GridSample) sample(at gridCoordinates, first int, dims []int, index []int, weight []float64) int {
	n := 1
	index[0], weight[0] = 0, 1
	for a, d := range dims {
		x := at.coordinate(g, first+len(dims)-1-a, d)
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
				w[k] = window.KeysKernel(float64(k-1)-ratio, -0.75)
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

// gridBlock is the number of samples that are computed for one channel after the other, so that a
// plane stays in the cache.
const gridBlock = 64

// gridPoint holds the elements of a plane that a sample reads: those of row i are at at[i]+col[j].
type gridPoint[T kit.RealFloat] struct {
	to         int // index of the sample within its block
	rows, cols int
	at, col    [4]int
	wy, wx     [4]T // for adjacent elements and linear interpolation, wx has the four products
}

// gridPlanes is gridSample for planes. In a block, samples of adjacent columns precede the others,
// and those that read nothing are left out: random branches would cost more than the arithmetic.
func gridPlanes[T kit.RealFloat](c *ir.Call, g *GridSample, y, x []T, at gridCoordinates, ch, places int, dims []int) {
	plane, taps := kit.Product(dims), g.Taps()
	c.Parallel(len(y)/ch, kit.GrainFor(taps*taps*(ch+4)), func(lo, hi int) {
		m := &ir.Meter{C: c}
		var points [gridBlock]gridPoint[T]
		var xs, ys [gridBlock]float64
		for end := lo; lo < hi; lo = end {
			img := lo / places
			end = min(hi, lo+gridBlock, (img+1)*places)
			at.coordinates(g, xs[:end-lo], 2*lo, 2, dims[1])
			at.coordinates(g, ys[:end-lo], 2*lo+1, 2, dims[0])
			adjacent, rest := 0, gridBlock
			for i := range end - lo {
				q := &points[adjacent]
				q.to = i
				if gridPointAt(g, q, taps, xs[i], ys[i], dims[0], dims[1]) {
					adjacent++
				} else if q.rows > 0 && q.cols > 0 {
					rest--
					points[rest] = *q
				}
			}
			for k := range ch {
				from, to := x[(img*ch+k)*plane:][:plane], y[(img*ch+k)*places+lo%places:][:end-lo]
				clear(to)
				gridAdjacent(to, from, points[:adjacent], taps)
				for i := range points[rest:] {
					q := &points[rest+i]
					var sum T
					for r, wy := range q.wy[:q.rows] {
						line, row := from[q.at[r]:], T(0)
						if q.cols == len(q.col) {
							row = q.wx[0]*line[q.col[0]] + q.wx[1]*line[q.col[1]] + q.wx[2]*line[q.col[2]] +
								q.wx[3]*line[q.col[3]]
						} else {
							for j, wx := range q.wx[:q.cols] {
								row += wx * line[q.col[j]]
							}
						}
						sum += wy * row
					}
					to[q.to] = sum
				}
			}
			if !m.Spend((end - lo) * taps * taps * (ch + 4)) {
				return
			}
		}
	})
}

// gridAdjacent computes the samples of points, which read squares of taps×taps adjacent elements.
func gridAdjacent[T kit.RealFloat](to, from []T, points []gridPoint[T], taps int) {
	if taps == 2 {
		for i := range points {
			q := &points[i]
			a, b := (*[2]T)(from[q.at[0]:]), (*[2]T)(from[q.at[1]:])
			to[q.to] = q.wx[0]*a[0] + q.wx[1]*a[1] + q.wx[2]*b[0] + q.wx[3]*b[1]
		}
		return
	}
	for i := range points {
		q := &points[i]
		var sum T
		for r, at := range &q.at {
			v := (*[4]T)(from[at:])
			sum += q.wy[r] * (q.wx[0]*v[0] + q.wx[1]*v[1] + q.wx[2]*v[2] + q.wx[3]*v[3])
		}
		to[q.to] = sum
	}
}

// gridPointAt sets q for the coordinates x and y in a plane of h×w elements. It reports whether q
// reads all rows and columns that the mode demands, and adjacent columns.
func gridPointAt[T kit.RealFloat](g *GridSample, q *gridPoint[T], taps int, x, y float64, h, w int) bool {
	fx, fy := math.Floor(x), math.Floor(y)
	before := taps/2 - 1
	left, top := int(fx)-before, int(fy)-before
	inside := uint(top) < uint(max(0, h-taps+1)) && uint(left) < uint(max(0, w-taps+1))
	if !inside && g.Padding == "zeros" && (uint(top+taps-1) >= uint(h+taps-1) || uint(left+taps-1) >= uint(w+taps-1)) {
		q.rows = 0
		return false
	}
	rx, ry := x-fx, y-fy
	if taps == 2 && inside {
		q.wx = [4]T{T((1 - ry) * (1 - rx)), T((1 - ry) * rx), T(ry * (1 - rx)), T(ry * rx)}
	} else if taps == 2 {
		q.wx[0], q.wx[1], q.wy[0], q.wy[1] = T(1-rx), T(rx), T(1-ry), T(ry)
	} else {
		for k, v := range window.KeysWeights(rx) {
			q.wx[k] = T(v)
		}
		for k, v := range window.KeysWeights(ry) {
			q.wy[k] = T(v)
		}
	}
	if inside {
		for k := range taps {
			q.at[k] = (top+k)*w + left
		}
		return true
	}
	if g.Padding == "border" && h > 0 && w > 0 { // without branches
		q.rows, q.cols = taps, taps
		for k := range taps {
			q.at[k], q.col[k] = min(max(top+k, 0), h-1)*w, min(max(left+k, 0), w-1)
		}
		return false
	}
	q.rows, q.cols = 0, 0
	for k := range taps {
		if row := g.Element(top+k, h); row >= 0 {
			q.at[q.rows], q.wy[q.rows] = row*w, q.wy[k]
			q.rows++
		}
		if col := g.Element(left+k, w); col >= 0 {
			q.col[q.cols], q.wx[q.cols] = col, q.wx[k]
			q.cols++
		}
	}
	return false
}

func gridSample[T kit.RealFloat](c *ir.Call, g *GridSample, t *tensor.Tensor, at gridCoordinates, out []int) error {
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
	if r == 2 && !c.Generic {
		gridPlanes(c, g, y.Data, x, at, ch, places, dims)
		y.StoreNumber(true)
		return c.Err()
	}
	c.Parallel(out[0]*places, kit.GrainFor(most*(ch+4)), func(lo, hi int) {
		m := &ir.Meter{C: c}
		index, weight := make([]int, most), make([]float64, most)
		for p := lo; p < hi && m.Spend(most*ch); p++ {
			n := g.sample(at, p*r, dims, index, weight)
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
func (g *GridSample) runNearest(c *ir.Call, t *tensor.Tensor, at gridCoordinates, out []int) error {
	src, err := move.In(c, t)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, t.DType(), out...)
	if err != nil || dst.Len() == 0 {
		return err
	}
	dims := t.Shape()[2:]
	switch dst.Width {
	case 0:
		gridMove(c, g, gridGather(dst.Strs, src.Strs), at, out, dims)
	case 1:
		gridMove(c, g, gridGather(dst.Raw, src.Raw), at, out, dims)
	case 2:
		gridMove(c, g, gridGather(move.Of[uint16](dst), move.Of[uint16](src)), at, out, dims)
	case 4:
		gridMove(c, g, gridGather(move.Of[uint32](dst), move.Of[uint32](src)), at, out, dims)
	case 8:
		gridMove(c, g, gridGather(move.Of[uint64](dst), move.Of[uint64](src)), at, out, dims)
	case 16:
		gridMove(c, g, gridGather(move.Of[[2]uint64](dst), move.Of[[2]uint64](src)), at, out, dims)
	}
	dst.Done()
	return c.Err()
}

// gridGather returns a function that writes n elements from to on. It copies src[from+index[i]] to
// element places[i], and sets the others to zero.
func gridGather[E move.Elem](dst, src []E) func(to, n, from int, index, places []int) {
	return func(to, n, from int, index, places []int) {
		d, x := dst[to:][:n], src[from:]
		clear(d)
		for i, at := range index {
			d[places[i]] = x[at]
		}
	}
}

func gridMove(c *ir.Call, g *GridSample, gather func(to, n, from int, index, places []int), at gridCoordinates,
	out, dims []int) {
	plane, ch, r := kit.Product(dims), out[1], len(dims)
	places := kit.Product(out[2:])
	c.Parallel(out[0]*places, kit.GrainFor(ch+8*r), func(lo, hi int) {
		m := &ir.Meter{C: c}
		var index, tos [gridBlock]int // of the samples that are not zero
		var xs, ys [gridBlock]float64
		var weight [1]float64
		planar := r == 2 && !c.Generic
		for end := lo; lo < hi; lo = end {
			img := lo / places
			end = min(hi, lo+gridBlock, (img+1)*places)
			n := 0
			if planar {
				at.coordinates(g, xs[:end-lo], 2*lo, 2, dims[1])
				at.coordinates(g, ys[:end-lo], 2*lo+1, 2, dims[0])
			}
			for i := range end - lo {
				tos[n] = i
				if !planar {
					n += g.sample(at, (lo+i)*r, dims, index[n:], weight[:])
					continue
				}
				row, col := g.Element(int(ys[i]), dims[0]), g.Element(int(xs[i]), dims[1])
				if row >= 0 && col >= 0 {
					index[n] = row*dims[1] + col
					n++
				}
			}
			for k := range ch {
				gather((img*ch+k)*places+lo%places, end-lo, (img*ch+k)*plane, index[:n], tos[:])
			}
			if !m.Spend((end - lo) * ch) {
				return
			}
		}
	})
}
