package conv

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// The interpolation points of Winograd's minimal filtering F(m×m, 3×3) (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2015), which computes m×m outputs with (m+2)²
// multiplications per channel instead of 9m². They are 0, ±3/4, ±3/2 and infinity for m = 4, whose
// errors are a third of those of the usual 0, ±1, ±2 and infinity. They are 0, ±1 and infinity for
// m = 2. The largest error relative to the root mean square of the output is about 1.1e-5 for
// m = 4, 3.4e-6 for m = 2 and 6.7e-6 for the direct sum.
//
// On arm64, a transform computes a quarter of a block of 16 channels. llvm-mca predicts 235 and 240
// cycles for the transforms of a tile of F(4×4) and 16 channels on Neoverse V1. Without misses, 16
// channels in and out take 1050 cycles, 64 take 11,100; the direct convolution 2300 and 36,900.
const pointA, pointB = 0.75, 1.5

// WinogradWeights holds the transformed filters of a 3×3 convolution, in panels of 32 outputs.
type WinogradWeights struct {
	M         int // outputs per side of a tile: 2 or 4
	Cin, Cout int
	Data      []float32 // [panel][xi][cin][32], or [xi][panel][cin][32] if streamed
	Bias      []float32
	streamed  bool     // many channels: the weights are read once per block of tiles
	rounded   []uint16 // Data rounded to bfloat16, pairs of channels interleaved, or nil
}

// Bytes returns the size of the packed weights.
func (p *WinogradWeights) Bytes() int64 {
	return int64(len(p.Data)+len(p.Bias))*4 + int64(len(p.rounded))*2
}

// PackWinograd transforms w of shape (cout, cin, 3, 3) in float64. bias may be nil.
func PackWinograd(level cpu.Level, m int, w, bias []float32, cin, cout int) *WinogradWeights {
	if m != 2 && m != 4 {
		panic(fmt.Sprintf("conv: Winograd tile of %d, want 2 or 4", m))
	}
	x, ci, panels := (m+2)*(m+2), tiles(cin, Lanes)*Lanes, tiles(cout, 2*Lanes)
	p := &WinogradWeights{M: m, Cin: cin, Cout: cout, streamed: cin*cout > streamedFrom}
	p.Data = memory.Slice[float32](x * panels * ci * 2 * Lanes)
	p.Bias = memory.Slice[float32](panels * 2 * Lanes)
	copy(p.Bias, bias)
	xiStride, panelStride := ci*2*Lanes, x*ci*2*Lanes
	if p.streamed {
		xiStride, panelStride = panels*ci*2*Lanes, ci*2*Lanes
	}
	const run = 8 // channels at a time
	var g [run * 9 * Lanes]float32
	for o := 0; o < cout; o += Lanes {
		n := min(Lanes, cout-o)
		if n < Lanes {
			clear(g[:])
		}
		for c := 0; c < cin; c += run {
			k := min(run, cin-c)
			vec.TransposeF32(level, g[:], Lanes, w[(o*cin+c)*9:], cin*9, n, k*9)
			dst := p.Data[o/(2*Lanes)*panelStride+c*2*Lanes+o%(2*Lanes):]
			winogradFilter(level, m, &g[0], &dst[0], xiStride*4, k)
		}
	}
	return p
}

// filterPoints holds rows of G for m = 2 and 4: the factor of point 0, and for each pair of points
// ±p the factors of g0, g1 and g2. The row of infinity is g2 alone.
var filterPoints = map[int][]float64{2: {1, .5, .5, .5}, 4: func() []float64 {
	const a, b = pointA, pointB
	const fa, fb = 1 / (2 * a * a * (a*a - b*b)), 1 / (2 * b * b * (b*b - a*a))
	return []float64{1 / (a * a * b * b), fa, a * fa, a * a * fa, fb, b * fb, b * b * fb}
}()}

// winogradFilterGeneric computes G·g·Gᵀ for n filters of 16 outputs, [n][9][16], in float64.
// Element xi of filter c is written to dst + xi·stride + c·128 bytes.
func winogradFilterGeneric(m int, src, dst *float32, xi, n int) {
	points, side := filterPoints[m], m+2
	transform := func(x0, x1, x2 float64, to *[6]float64) {
		to[0], to[side-1] = points[0]*x0, x2
		for p := 1; p < side-1; p += 2 {
			f := points[1+(p-1)/2*3:][:3]
			even, odd := f[0]*x0+f[2]*x2, f[1]*x1
			to[p], to[p+1] = even+odd, even-odd
		}
	}
	for c := range n {
		for l := range Lanes {
			at := func(t int) float64 {
				return float64(f32at(unsafe.Pointer(src), ((c*9+t)*Lanes+l)*4))
			}
			var t [3][6]float64
			for v := range 3 {
				transform(at(v), at(3+v), at(6+v), &t[v])
			}
			for i := range side {
				var r [6]float64
				transform(t[0][i], t[1][i], t[2][i], &r)
				for j, v := range r[:side] {
					*(*float32)(unsafe.Add(unsafe.Pointer(dst), (i*side+j)*xi+c*128+l*4)) = float32(v)
				}
			}
		}
	}
}

// Winograd is a 3×3 convolution with stride 1 over NCHW16c. The input needs no border, but is
// faster to read with one.
type Winograd struct {
	In, Out   Layout
	Top, Left int // padding
	Dilation  int // at least 1
	Weights   *WinogradWeights
}

// Check validates the layouts against the weights.
func (d *Winograd) Check() error {
	w := d.Weights
	if d.In.C != w.Cin || d.Out.C != w.Cout {
		return fail.Errorf("layouts of %d and %d channels do not fit weights from %d to %d", d.In.C,
			d.Out.C, w.Cin, w.Cout)
	}
	if d.Dilation < 1 {
		return fail.Errorf("dilation %d, want at least 1", d.Dilation)
	}
	if most := 2 * d.Dilation; d.Top < 0 || d.Top > most || d.Left < 0 || d.Left > most {
		return fail.Errorf("padding %d, %d, want 0 to %d", d.Top, d.Left, most)
	}
	return nil
}

// winogradBlock holds the transformed input and the products of one block of tiles.
type winogradBlock struct {
	v, m    []float32
	rounded []uint16  // v, if the weights are rounded
	patch   []float32 // one padded input patch, output tile and residual tile
}

var winogradPool = sync.Pool{New: func() any { return new(winogradBlock) }}

func (b *winogradBlock) grow(v, m, rounded int) {
	if len(b.v) < v {
		b.v = memory.Slice[float32](v)
	}
	if len(b.m) < m {
		b.m = memory.Slice[float32](m)
	}
	if len(b.rounded) < rounded {
		b.rounded = memory.Slice[uint16](rounded)
	}
	if b.patch == nil {
		b.patch = memory.Slice[float32]((36 + 2*16) * Lanes)
	}
}

// To returns the convolution with another output layout of the same size.
func (d *Winograd) To(out Layout) *Winograd {
	c := *d
	c.Out = out
	return &c
}

// Run computes one image. par distributes the tiles, or the channels of small images that threads
// share; if it is nil, one call computes everything.
func (d *Winograd) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.run(level, par, y, x, ep)
	if !ep.finishes() {
		return
	}
	work := func(lo, hi int) {
		for u := lo; u < hi; u++ {
			ep.finish(level, &d.Out, y, u/d.Out.H, u/d.Out.H, 1, u%d.Out.H, 0, d.Out.W)
		}
	}
	if n := d.Out.Blocks() * d.Out.H; par == nil {
		work(0, n)
	} else {
		par(n, work)
	}
}

func (d *Winograd) run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	m := d.Weights.M
	n := gridTiles(d.Out.H, m, d.Dilation) * gridTiles(d.Out.W, m, d.Dilation)
	threads := ep.Threads
	if par == nil {
		threads = 1
	}
	blocks, shared := d.divide(n, threads)
	run := winogradRun{Winograd: d, level: level, y: y, x: x, ep: ep}
	run.lo, run.hi = ep.bounds()
	if !shared {
		work := func(lo, hi int) {
			r := run
			r.begin(tiles(n, blocks))
			for i := lo; i < hi; i++ {
				r.setBlock(n*i/blocks, n*(i+1)/blocks)
				r.input(0, r.In.Blocks(), r.t0, r.t1)
				r.panels()
				r.output(0, r.Out.Blocks(), r.t0, r.t1)
			}
			winogradPool.Put(r.b)
		}
		if par == nil {
			work(0, blocks)
		} else {
			par(blocks, work)
		}
		return
	}
	// Threads share the transforms and the products of one block. par may repeat its calls in the
	// same order, so the memory is taken from the pool and returned inside of them.
	all := &run
	parts := tiles(n, sharedTiles)
	transform := func(blocks int, fn func(r *winogradRun, b0, b1, t0, t1 int)) {
		par(blocks*parts, func(lo, hi int) {
			patch := patchPool.Get().(*winogradPatch)
			r := *all
			r.patch = patch
			for u := lo; u < hi; u++ {
				fn(&r, u/parts, u/parts+1, n*(u%parts)/parts, n*(u%parts+1)/parts)
			}
			patchPool.Put(patch)
		})
	}
	par(1, func(lo, hi int) {
		if lo < hi {
			all.begin(n)
			all.setBlock(0, n)
		}
	})
	transform(run.In.Blocks(), (*winogradRun).input)
	points, panels := (m+2)*(m+2), run.npanels()
	par(points*panels, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			if d.Weights.streamed {
				all.multiply(u/panels, u%panels)
			} else {
				all.multiply(u%points, u/points)
			}
		}
	})
	transform(run.Out.Blocks(), (*winogradRun).output)
	par(1, func(lo, hi int) {
		if lo < hi {
			winogradPool.Put(all.b)
			all.b = nil
		}
	})
}

// sharedTiles is the number of tiles that a thread transforms if threads share a block.
const sharedTiles = 8

// winogradRun is the work on one block of tiles [t0, t1).
type winogradRun struct {
	*Winograd
	level  cpu.Level
	y, x   []float32
	ep     *BlockedEpilogue
	lo, hi float32
	b      *winogradBlock
	t0, t1 int
	vx, mx int // elements between xi and xi+1 of v and m
	patch  *winogradPatch
}

type winogradPatch = [(36 + 2*16) * Lanes]float32

var patchPool = sync.Pool{New: func() any { return (*winogradPatch)(memory.Slice[float32](len(winogradPatch{}))) }}

func (r *winogradRun) npanels() int { return tiles(r.Weights.Cout, 2*Lanes) }

func (r *winogradRun) sizes(t int) (v, m int) {
	x := (r.Weights.M + 2) * (r.Weights.M + 2)
	return x * (r.In.Blocks()*t + 1) * Lanes, x * (r.npanels()*2*t + 1) * Lanes
}

// begin takes memory for blocks of up to t tiles.
func (r *winogradRun) begin(t int) {
	r.b = winogradPool.Get().(*winogradBlock)
	v, m := r.sizes(t)
	r.b.grow(v, m, r.roundedLen(t)*(r.Weights.M+2)*(r.Weights.M+2))
	r.patch = (*winogradPatch)(r.b.patch)
}

func (r *winogradRun) setBlock(t0, t1 int) {
	r.t0, r.t1 = t0, t1
	v, m := r.sizes(t1 - t0)
	x := (r.Weights.M + 2) * (r.Weights.M + 2)
	r.vx, r.mx = v/x, m/x
}

func elem(s []float32, i int) *float32 { return (*float32)(at(ptr(s), i)) }

// input transforms tiles [t0, t1) of the channel blocks [c0, c1) into V[xi][cb][tile][16].
func (r *winogradRun) input(c0, c1, t0, t1 int) {
	m, in := r.Weights.M, &r.In
	side, n, step := m+2, r.t1-r.t0, r.Dilation
	tw := gridTiles(r.Out.W, m, step)
	patch := r.patch[:side*side*Lanes]
	for cb := c0; cb < c1; cb++ {
		dst := (cb*n + t0 - r.t0) * Lanes
		for t := t0; t < t1; {
			ty, tx := t/tw, t%tw
			y, x := gridTile(ty, r.Out.H, m, step)-r.Top, gridTile(tx, r.Out.W, m, step)-r.Left
			inside := 0 // tiles in this row inside of the stored area
			if step == 1 && y >= -in.Top && y+side <= in.H+in.Bottom && x >= -in.Left {
				inside = min(tw-tx, t1-t, max(0, in.W+in.Right-x-2)/m)
			}
			if inside > 0 {
				winogradInput(r.level, m, elem(r.x, in.At(cb, y, x)), elem(r.b.v, dst), in.Row*4, r.vx*4, inside)
			} else {
				clear(patch)
				xa := max(0, tiles(-x, step)) // the first column inside
				xb := min(side, tiles(in.W-x, step))
				for i := range side {
					yy := y + i*step
					if yy < 0 || yy >= in.H || xa >= xb {
						continue
					}
					copyPixels(patch[(i*side+xa)*Lanes:], r.x[in.At(cb, yy, x+xa*step):], xb-xa, Lanes, step*Lanes)
				}
				inside = 1
				winogradInput(r.level, m, &patch[0], elem(r.b.v, dst), side*Lanes*4, r.vx*4, 1)
			}
			t += inside
			dst += inside * Lanes
		}
		if r.Weights.rounded != nil {
			r.round(cb, t0-r.t0, t1-r.t0)
		}
	}
}

// panels multiplies the block by all filters, in the order in which they are stored.
func (r *winogradRun) panels() {
	x := (r.Weights.M + 2) * (r.Weights.M + 2)
	if r.Weights.streamed {
		for xi := range x {
			for p := range r.npanels() {
				r.multiply(xi, p)
			}
		}
		return
	}
	for p := range r.npanels() {
		for xi := range x {
			r.multiply(xi, p)
		}
	}
}

// multiply computes M[xi] of one panel for all tiles of the block.
func (r *winogradRun) multiply(xi, p int) {
	w := r.Weights
	n, cbs := r.t1-r.t0, r.In.Blocks()
	size := cbs * Lanes * 2 * Lanes
	i := p*(w.M+2)*(w.M+2) + xi
	if w.streamed {
		i = xi*r.npanels() + p
	}
	if w.rounded != nil {
		r.multiplyRounded(xi, p, i*size)
		return
	}
	most := tilePixels(r.level)
	count := tiles(n, most)
	chunks := tiles(cbs*Lanes, maxSteps)
	lines := min(4, (8+count-1)/count)
	var t tileArgs
	t.kh, t.kw = 1, 1
	t.pixel = Lanes * 4
	t.dcb = (n - 1) * Lanes * 4
	t.ldc = n * Lanes * 4
	t.bStep = 2 * Lanes * 4
	blocks := 2
	if idle := (p+1)*2*Lanes - w.Cout; idle >= Lanes && r.level != cpu.AVX512 { // whose tiles ignore bStep
		blocks, t.half = 1, uint64(idle/(Lanes+Lanes/2))
	}
	for c := range chunks {
		cb0, cb1 := cbs*c/chunks, cbs*(c+1)/chunks
		t.cb = cb1 - cb0
		t.b = at(ptr(w.Data), i*size+cb0*Lanes*2*Lanes)
		t.acc = min(uint64(c), 1)
		if c == chunks-1 {
			t.leaveOut(r.In.idleGroups())
		}
		for k := range count {
			lo, hi := split(n, most, k)
			t.a = at(ptr(r.b.v), xi*r.vx+(cb0*n+lo)*Lanes)
			t.c = at(ptr(r.b.m), xi*r.mx+(2*p*n+lo)*Lanes)
			t.prefetch, t.prefetchStep = uintptr(t.b), 0
			if ahead := (i+1)*size + k*t.cb*Lanes*lines*4; ahead < len(w.Data) {
				t.prefetch, t.prefetchStep = address(w.Data, ahead), lines*64
			}
			runTile(r.level, hi-lo, blocks, &t)
		}
	}
}

// output applies the output transform to tiles [t0, t1) of blocks [b0, b1) and stores them.
func (r *winogradRun) output(b0, b1, t0, t1 int) {
	m, out := r.Weights.M, &r.Out
	side, n, step := m+2, r.t1-r.t0, r.Dilation
	tw := gridTiles(out.W, m, step)
	tile := r.patch[side*side*Lanes:][:m*m*Lanes]
	res := r.patch[(side*side+m*m)*Lanes:][:m*m*Lanes]
	for ob := b0; ob < b1; ob++ {
		src := (ob*n + t0 - r.t0) * Lanes
		bias := elem(r.Weights.Bias, ob*Lanes)
		for t := t0; t < t1; {
			ty, tx := t/tw, t%tw
			y, x := gridTile(ty, out.H, m, step), gridTile(tx, out.W, m, step)
			inside := 0
			if step == 1 && y+m <= out.H {
				inside = min(tw-tx, t1-t, (out.W-x)/m)
			}
			if inside > 0 {
				var add *float32
				if r.ep.Add != nil {
					add = elem(r.ep.Add, r.ep.AddLayout.At(ob, y, x))
				}
				winogradOutput(r.level, m, elem(r.b.m, src), elem(r.y, out.At(ob, y, x)), bias, add, out.Row*4,
					r.ep.AddLayout.Row*4, r.mx*4, inside, r.lo, r.hi)
			} else {
				h, w := min(m, tiles(out.H-y, step)), min(m, tiles(out.W-x, step))
				var add *float32
				if r.ep.Add != nil {
					add = &res[0]
					for i := range h {
						copyPixels(res[i*m*Lanes:], r.ep.Add[r.ep.AddLayout.At(ob, y+i*step, x):], w, Lanes, step*Lanes)
					}
				}
				inside = 1
				winogradOutput(r.level, m, elem(r.b.m, src), &tile[0], bias, add, m*Lanes*4, m*Lanes*4,
					r.mx*4, 1, r.lo, r.hi)
				for i := range h {
					copyPixels(r.y[out.At(ob, y+i*step, x):], tile[i*m*Lanes:], w, step*Lanes, Lanes)
				}
			}
			t += inside
			src += inside * Lanes
		}
	}
}

// winogradInputGeneric computes Bᵀ·d·B of n adjacent tiles in 16 channels. Distances are in bytes.
func winogradInputGeneric(m int, src, dst *float32, row, xi, n int) {
	side := m + 2
	step := func(d, o *[6][Lanes]float32) {
		for j := range Lanes {
			if m == 2 {
				o[0][j] = d[0][j] - d[2][j]
				o[1][j] = d[1][j] + d[2][j]
				o[2][j] = d[2][j] - d[1][j]
				o[3][j] = d[3][j] - d[1][j]
				continue
			}
			const a, b = pointA, pointB
			const a2, b2 = a * a, b * b
			d0, d1, d2, d3, d4, d5 := d[0][j], d[1][j], d[2][j], d[3][j], d[4][j], d[5][j]
			o[0][j] = a2*b2*d0 - (a2+b2)*d2 + d4
			o[1][j] = (d4 - b2*d2) + a*(d3-b2*d1)
			o[2][j] = (d4 - b2*d2) - a*(d3-b2*d1)
			o[3][j] = (d4 - a2*d2) + b*(d3-a2*d1)
			o[4][j] = (d4 - a2*d2) - b*(d3-a2*d1)
			o[5][j] = a2*b2*d1 - (a2+b2)*d3 + d5
		}
	}
	var in, mid [6][6][Lanes]float32
	var col, res [6][Lanes]float32
	for t := range n {
		s, d := unsafe.Add(unsafe.Pointer(src), t*m*Lanes*4), unsafe.Add(unsafe.Pointer(dst), t*Lanes*4)
		for i := range side {
			for j := range side {
				in[i][j] = *lanes(unsafe.Add(s, i*row+j*Lanes*4))
			}
		}
		for j := range side {
			for i := range side {
				col[i] = in[i][j]
			}
			step(&col, &res)
			for i := range side {
				mid[i][j] = res[i]
			}
		}
		for i := range side {
			step(&mid[i], &res)
			for j := range side {
				*lanes(unsafe.Add(d, (i*side+j)*xi)) = res[j]
			}
		}
	}
}

// winogradOutputGeneric computes Aᵀ·m·A + bias + add, clipped to [lo, hi], of n adjacent tiles.
func winogradOutputGeneric(m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	side := m + 2
	step := func(d, o *[6][Lanes]float32) {
		for j := range Lanes {
			if m == 2 {
				o[0][j] = d[0][j] + d[1][j] + d[2][j]
				o[1][j] = d[1][j] - d[2][j] + d[3][j]
				continue
			}
			const a, b = pointA, pointB
			s1, m1, s2, m2 := d[1][j]+d[2][j], d[1][j]-d[2][j], d[3][j]+d[4][j], d[3][j]-d[4][j]
			o[0][j] = d[0][j] + s1 + s2
			o[1][j] = a*m1 + b*m2
			o[2][j] = a*a*s1 + b*b*s2
			o[3][j] = a*a*a*m1 + b*b*b*m2 + d[5][j]
		}
	}
	var mid [6][6][Lanes]float32
	var col, res [6][Lanes]float32
	for t := range n {
		s, d := unsafe.Add(unsafe.Pointer(src), t*Lanes*4), unsafe.Add(unsafe.Pointer(dst), t*m*Lanes*4)
		for j := range side {
			for i := range side {
				col[i] = *lanes(unsafe.Add(s, (i*side+j)*xi))
			}
			step(&col, &res)
			for i := range m {
				mid[i][j] = res[i]
			}
		}
		for i := range m {
			step(&mid[i], &res)
			for j := range m {
				o := &res[j]
				for k, v := range lanes(unsafe.Pointer(bias)) {
					o[k] += v
				}
				if add != nil {
					for k, v := range lanes(unsafe.Add(unsafe.Pointer(add), t*m*Lanes*4+i*addRow+j*Lanes*4)) {
						o[k] += v
					}
				}
				activate(o, gemm.Clip, lo, hi)
				*lanes(unsafe.Add(d, i*row+j*Lanes*4)) = *o
			}
		}
	}
}
