package calibration

import (
	"fmt"
	"math"
	"sort"
)

// histogram counts the values of a tensor in bins of equal width: values from −t to t, or
// absolute values from the smallest to the largest.
//
// The arithmetic is that of ONNX Runtime's HistogramCollector with NumPy on float32 values,
// operation by operation, so that edges and counts are equal.
type histogram struct {
	counts    []int64
	edges     []float32 // one more than counts
	extent              // of the values
	threshold float32
	absolute  bool
	ragged    bool // bins were added at the right end, and rounding makes their widths differ
}

func newHistogram(o *Options, e, magnitudes extent) (*histogram, error) {
	h := &histogram{counts: make([]int64, o.Bins), extent: e, absolute: o.absolute()}
	if err := e.check(); err != nil {
		return nil, err
	}
	if h.absolute {
		h.edges = linspace(magnitudes.lo, magnitudes.hi, o.Bins)
		if !increasing(h.edges) { // the values are too close for this number of bins
			h.edges = linspace(0, magnitudes.hi, o.Bins)
		}
	} else {
		h.threshold = max(-e.lo, e.lo, e.hi, -e.hi)
		h.edges = linspace(-h.threshold, h.threshold, o.Bins)
	}
	if !increasing(h.edges) { // all values are about zero
		h.threshold = 0
		h.edges = linspace(0, 0, o.Bins)
	}
	return h, nil
}

// check returns an error if the edges of the bins, or their distance, would exceed float32.
func (e extent) check() error {
	const limit = math.MaxFloat32 / 4
	if e.some && !(e.lo >= -limit && e.hi <= limit) {
		return fmt.Errorf("the values range from %g to %g, want magnitudes of at most %g for a histogram",
			e.lo, e.hi, limit)
	}
	return nil
}

func increasing(edges []float32) bool {
	for i, e := range edges[1:] {
		if !(e > edges[i]) {
			return false
		}
	}
	return true
}

// linspace returns the edges of n bins from a to b. If a equals b, the total width is 1.
func linspace(a, b float32, n int) []float32 {
	if a == b {
		a, b = a-0.5, b+0.5
	}
	edges := make([]float32, n+1)
	step := (b - a) / float32(n)
	for i := range edges {
		edges[i] = float32(float32(i)*step) + a
	}
	edges[n] = b
	return edges
}

// count counts the values that lie in the bins.
func (h *histogram) count(values []float32) {
	n := len(h.counts)
	first, last := h.edges[0], h.edges[n]
	width, bins := last-first, float32(n)
	for _, x := range values {
		if !(x >= first && x <= last) {
			continue
		}
		var i int
		if h.ragged {
			i = sort.Search(n, func(i int) bool { return h.edges[i+1] > x })
		} else {
			i = int(float32((x-first)/width) * bins)
		}
		i = min(max(i, 0), n-1)
		if x < h.edges[i] && i > 0 {
			i--
		} else if i < n-1 && x >= h.edges[i+1] {
			i++
		}
		h.counts[i]++
	}
}

// widen extends the histogram to the values of another window.
func (h *histogram) widen(o *Options, e, magnitudes extent) error {
	if !e.some {
		return nil
	}
	if err := e.check(); err != nil {
		return err
	}
	if !h.some {
		n, err := newHistogram(o, e, magnitudes)
		*h = *n
		return err
	}
	h.lo, h.hi = min(h.lo, e.lo), max(h.hi, e.hi)
	if h.absolute {
		h.widenRight(magnitudes.hi, o.MaxBins)
		return nil
	}
	h.widenBoth(max(-e.lo, e.lo, e.hi, -e.hi), o.MaxBins)
	return nil
}

// widenBoth adds the same number of bins of the same width at both ends.
func (h *histogram) widenBoth(threshold float32, maxBins int) {
	if threshold <= h.threshold {
		return
	}
	if h.threshold == 0 { // all values so far are zeros, in the middle bin
		h.threshold = threshold
		h.edges = linspace(-threshold, threshold, len(h.counts))
		return
	}
	for {
		n := len(h.counts)
		stride := 2 * h.threshold / float32(n)
		more := floorDivide(threshold-h.threshold, stride) + 1
		if float64(n)+2*float64(more) <= float64(maxBins) {
			half := int(more)
			h.threshold = max(float32(more*stride)+h.threshold, threshold)
			counts := make([]int64, n+2*half)
			copy(counts[half:], h.counts)
			h.counts = counts
			h.edges = linspace(-h.threshold, h.threshold, len(counts))
			return
		}
		h.joinPairs(stride)
	}
}

// joinPairs merges pairs of neighbouring bins. It first adds a bin at each end if zero would
// not stay an edge otherwise, or the number of bins not even.
func (h *histogram) joinPairs(stride float32) {
	if len(h.counts)%4 != 0 {
		counts := make([]int64, len(h.counts)+2)
		copy(counts[1:], h.counts)
		h.counts = counts
		h.threshold += stride
	}
	for i := range len(h.counts) / 2 {
		h.counts[i] = h.counts[2*i] + h.counts[2*i+1]
	}
	h.counts = h.counts[:len(h.counts)/2]
}

// widenRight adds bins of the width of the first one at the right end.
func (h *histogram) widenRight(hi float32, maxBins int) {
	last := h.edges[len(h.edges)-1]
	if hi <= last {
		return
	}
	for {
		width := h.edges[1] - h.edges[0]
		start, stop := last+width, hi+width
		n := math.Ceil((float64(stop) - float64(start)) / float64(width))
		if float64(len(h.counts))+n <= float64(maxBins) {
			step := (start + width) - start
			for i := range int(n) {
				h.edges = append(h.edges, start+float32(float32(i)*step))
				h.counts = append(h.counts, 0)
			}
			h.ragged = true
			if e := &h.edges[len(h.edges)-1]; *e < hi {
				*e = hi // differs by rounding
			}
			return
		}
		if len(h.counts)%2 != 0 {
			h.edges = append(h.edges, last+width)
			h.counts = append(h.counts, 0)
			last += width
		}
		for i := range len(h.counts) / 2 {
			h.counts[i] = h.counts[2*i] + h.counts[2*i+1]
			h.edges[i+1] = h.edges[2*i+2]
		}
		h.counts = h.counts[:len(h.counts)/2]
		h.edges = h.edges[:len(h.counts)+1]
	}
}

// floorDivide is NumPy's floor division of positive float32 numbers.
func floorDivide(a, b float32) float32 {
	mod := float32(math.Mod(float64(a), float64(b)))
	div := (a - mod) / b
	floor := float32(math.Floor(float64(div)))
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

// percentileRange drops the bins at the ends that contain less than the share of values to
// drop.
func (h *histogram) percentileRange(percent float64, symmetric bool) (lo, hi float32) {
	var total int64
	for _, c := range h.counts {
		total += c
	}
	at := func(share float64) float32 {
		sum := 0.0
		for i, c := range h.counts {
			if sum += float64(c) / float64(total); sum >= share {
				return h.edges[i]
			}
		}
		return h.edges[len(h.counts)]
	}
	if symmetric {
		hi = at(percent / 100)
		lo = -hi
	} else {
		cut := (100 - percent) / 200
		lo, hi = at(cut), at(1-cut)
	}
	return max(lo, h.lo), min(hi, h.hi)
}

// entropyRange returns the range around zero, from the inner steps bins up to all of them,
// whose histogram diverges least from itself quantized to steps bins.
func (h *histogram) entropyRange(steps int) (lo, hi float32) {
	n := len(h.counts)
	zero, half := n/2, steps/2
	before := make([]int64, n+1) // before[i] is the sum of the first i counts
	nonzero := make([]int, n+1)
	for i, c := range h.counts {
		before[i+1], nonzero[i+1] = before[i]+c, nonzero[i]
		if c != 0 {
			nonzero[i+1]++
		}
	}
	p, q := make([]int64, n), make([]int64, n)
	pf, qf := make([]float32, n), make([]float32, n)
	best := float32(math.Inf(1))
	lo, hi = h.edges[zero-half], h.edges[min(zero+half+1, n)]
	for i := half; i <= zero; i++ {
		start, end := zero-i, min(zero+i+1, n)
		size := end - start
		p, q := p[:size], q[:size]
		copy(p, h.counts[start:end])
		p[0] += before[start]
		p[size-1] += before[n] - before[end]
		joined := size / steps
		clear(q)
		for s := range steps {
			from, to := s*joined, (s+1)*joined
			some := nonzero[start+to] - nonzero[start+from]
			if from == 0 && p[0] != 0 && h.counts[start] == 0 {
				some++
			}
			if to == size && p[size-1] != 0 && h.counts[end-1] == 0 {
				some++
			}
			if some == 0 {
				continue
			}
			sum := before[start+to] - before[start+from]
			if s == steps-1 {
				sum = before[end] - before[start+from]
			}
			for k := from; k < to; k++ {
				q[k] = sum / int64(some)
			}
		}
		ok := smooth(pf[:size], p) && smooth(qf[:size], q)
		if !ok {
			continue
		}
		if d := divergence(pf[:size], qf[:size]); d < best {
			best, lo, hi = d, h.edges[start], h.edges[end]
		}
	}
	return max(lo, h.lo), min(hi, h.hi)
}

// smooth replaces zeros of a distribution by a small number that it subtracts from the
// others (Han, Kamber, Data Mining; as MXNet and ONNX Runtime do). It returns false if the
// others are missing or too few.
func smooth(dst []float32, p []int64) bool {
	const eps = 0.0001
	zeros := 0
	for _, v := range p {
		if v == 0 {
			zeros++
		}
	}
	if zeros == len(p) {
		return false
	}
	take := eps * float64(zeros) / float64(len(p)-zeros)
	if take >= 1 {
		return false
	}
	for i, v := range p {
		if v == 0 {
			dst[i] = eps
		} else {
			dst[i] = float32(v) + float32(-take)
		}
	}
	return true
}

// divergence returns the Kullback-Leibler divergence of two distributions, which it
// normalizes. It overwrites p.
func divergence(p, q []float32) float32 {
	ps, qs := pairwiseSum(p), pairwiseSum(q)
	for i := range p {
		a, b := p[i]/ps, q[i]/qs
		p[i] = a * float32(math.Log(float64(a/b)))
	}
	return pairwiseSum(p)
}

// pairwiseSum returns NumPy's sum of float32 numbers: eight partial sums for up to 128
// numbers, and the sum of two halves for more.
func pairwiseSum(v []float32) float32 {
	n := len(v)
	if n < 8 {
		var s float32
		for _, x := range v {
			s += x
		}
		return s
	}
	if n > 128 {
		half := n / 2
		half -= half % 8
		return pairwiseSum(v[:half]) + pairwiseSum(v[half:])
	}
	var r [8]float32
	copy(r[:], v)
	i := 8
	for ; i+8 <= n; i += 8 {
		for k := range r {
			r[k] += v[i+k]
		}
	}
	s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		s += v[i]
	}
	return s
}
