package opfuzz

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// moments returns mean and variance of some numbers.
func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}

// closeGroups finds a group whose variance is at most a thousandth of the square of its mean
// plus 1e-5, and groups of double.
func closeGroups(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if x.DType() == tensor.TypeFloat64 {
		return true
	}
	if err != nil || x.Rank() < 2 || x.Len() == 0 {
		return false
	}
	n := int(c.Int("num_groups", c.Int("groups", 1)))
	if c.Op == "InstanceNormalization" {
		n = x.Dim(1)
	}
	last := c.Domain == "com.microsoft" && c.Int("channels_last", 1) == 1
	channels := x.Dim(1)
	if last {
		channels = x.Dim(x.Rank() - 1)
	}
	if n <= 0 || channels%n != 0 {
		return false
	}
	per, image := channels/n, x.Len()/x.Dim(0)
	groups := make([][]float64, x.Dim(0)*n)
	for i, v := range f {
		channel := i % image / (image / channels)
		if last {
			channel = i % channels
		}
		g := i/image*n + channel/per
		groups[g] = append(groups[g], v)
	}
	return slices.ContainsFunc(groups, func(g []float64) bool {
		mean, variance := moments(g)
		return !(variance > 1e-3*(mean*mean+1e-2))
	})
}

// constantGroup finds a group of MeanVarianceNormalization whose variance is 0, or is
// where it is computed as a difference of squares, and numbers whose squares leave float32.
func constantGroup(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if err != nil {
		return false
	}
	squares := 0.0
	for _, v := range f {
		squares += v * v
	}
	if !(squares <= math.MaxFloat32) {
		return true
	}
	axes := []int64{0, 2, 3}
	if a := c.Attr("axes"); a != nil {
		axes = a.Ints
	}
	groups := map[int][]float64{}
	for i, v := range f {
		key, rest, size := 0, i, 1
		for k := x.Rank() - 1; k >= 0; k-- {
			if at := rest % x.Dim(k); !slices.Contains(axes, int64(k)) && !slices.Contains(axes, int64(k-x.Rank())) {
				key += at * size
				size *= x.Dim(k)
			}
			rest /= x.Dim(k)
		}
		groups[key] = append(groups[key], v)
	}
	for _, g := range groups {
		if mean, variance := moments(g); !(variance > 1e-6*mean*mean) {
			return true
		}
	}
	return false
}

// nearSingular finds a matrix whose determinant is less than a hundredth of the volume
// that its rows could span, or a tenth in float16.
func nearSingular(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if err != nil || x.Rank() < 2 {
		return false
	}
	least := 1e-2
	if x.DType() == tensor.TypeFloat16 {
		least = 1.0 / 3
	}
	n := x.Dim(x.Rank() - 1)
	for ; n > 0 && len(f) >= n*n; f = f[n*n:] {
		a := slices.Clone(f[:n*n])
		ratio := 1.0
		for i := range n {
			norm := 0.0
			for _, v := range a[i*n:][:n] {
				norm = math.Hypot(norm, v)
			}
			ratio /= norm
		}
		for i := range n {
			p := i
			for k := i; k < n; k++ {
				if math.Abs(a[k*n+i]) > math.Abs(a[p*n+i]) {
					p = k
				}
			}
			for j := range n {
				a[i*n+j], a[p*n+j] = a[p*n+j], a[i*n+j]
			}
			ratio *= math.Abs(a[i*n+i])
			for k := i + 1; k < n; k++ {
				q := a[k*n+i] / a[i*n+i]
				for j := i; j < n; j++ {
					a[k*n+j] -= q * a[i*n+j]
				}
			}
		}
		if !(ratio > least) {
			return true
		}
	}
	return false
}
